"""Names of JAX that are not here, and what to write instead.

Input: a module and a name that it lacks.  Output: the AttributeError, with the way out for names
that scripts written for JAX reach for.
"""

from __future__ import annotations

_IN_PLACE = (
    "arrays are written in place here: copy one with stax.numpy.array(x, copy=True) and assign to "
    "it (a[i] = v, inside jit too); loops carry it, and jit(f, write_back=True) writes to arguments"
)
_ROWS = (
    "give a function its own rules with stax.custom_jvp, custom_vjp and "
    "custom_batching.custom_vmap; call other code with stax.pure_callback"
)
INSTEAD: dict[str, str] = {
    **dict.fromkeys(("new_ref", "array_ref", "Ref", "freeze", "ref"), _IN_PLACE),
    "interpreters": _ROWS,
    "stages": "stax.jit(f).lower(*args) and .compile() return the objects of the stages",
    "linear_util": "functions are passed as they are; stax.closure_convert frees one of tracers",
    "device_put_replicated": "use stax.device_put with a stax.sharding.NamedSharding",
    "device_put_sharded": "use stax.device_put with a stax.sharding.NamedSharding",
    "distributed": "programs run in one process",
    "custom_derivatives.linear_call": (
        "use stax.custom_vjp with the transposed function as the backward pass; of solvers "
        "stax.lax.custom_linear_solve"
    ),
    "core.Primitive": _ROWS,
    "extend.core.Primitive": _ROWS,
    "experimental.host_callback": "use stax.pure_callback, io_callback or debug.callback",
    "experimental.pallas": "write the function in NumPy: stax.jit generates the kernels",
    "experimental.maps": "use stax.vmap(axis_name=...) or experimental.shard_map",
    "experimental.optimizers": "it is stax.example_libraries.optimizers",
    "experimental.stax": "it is stax.example_libraries.stax",
    "experimental.rnn": "write the cell and stax.lax.scan it: forward and backward are one program",
    "experimental.serialize_executable": "use stax.export(f)(*args).serialize()",
    "experimental.compilation_cache": "programs are cached on disk; STAX_CACHE_DIR says where",
    "experimental.sparse.BCSR": "use BCOO, or BCOO.fromdense(matrix)",
    "experimental.sparse.sparsify": (
        "call operators and the functions of stax.experimental.sparse on BCOO arrays"
    ),
}


def missing(module: str, name: str) -> AttributeError:
    """The error for `module.name`, which does not exist."""
    path = f"{module}.{name}".removeprefix("stax.")
    hint = INSTEAD.get(path)
    text = f"module {module!r} has no attribute {name!r}"
    return AttributeError(text if hint is None else f"{text}: {hint}")
