"""The public names of stax, imported together the first time one of them is used.

SciPy's ufuncs on traced values are those of `stax.scipy.special`, which is imported by the first.
Arrays on a device are told what computes their operators and methods.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as _np

from stax import config, debug, dtypes, errors, lax, numpy, sharding, tree, typing
from stax.backends.triton.methods import COMPUTE as _COMPUTE
from stax.core import text as _text
from stax.core.graph import Graph
from stax.core.trace import ELSEWHERE as _ELSEWHERE
from stax.core.trace import UFUNC_FINDERS as _UFUNC_FINDERS
from stax.dtypes import float0
from stax.errors import *  # noqa: F403 - its __all__ is the list of names
from stax.explain.report import explain, memory_curve
from stax.lax.elementwise import stop_gradient
from stax.numpy.at import at
from stax.on_device import bound as _bound
from stax.on_device import compute as _compute
from stax.placement import (
    Device,
    Shard,
    block_until_ready,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    effects_barrier,
    from_dlpack,
    local_device_count,
    local_devices,
    make_mesh,
    process_count,
    process_index,
    typeof,
)
from stax.switches import (
    check_tracer_leaks,
    checking_leaks,
    debug_key_reuse,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    legacy_prng_key,
    log_compiles,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    softmax_custom_jvp,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from stax.transforms.callbacks import pure_callback
from stax.transforms.chains import Binomial
from stax.transforms.checkpoint import (
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    checkpoint_sequential,
    remat,
)
from stax.transforms.compile_time import (
    debug_infs,
    debug_nans,
    disable_jit,
    ensure_compile_time_eval,
    named_call,
    named_scope,
)
from stax.transforms.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from stax.transforms.grad import (
    grad,
    hvp,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from stax.transforms.inspect import ShapeDtypeStruct, eval_shape, make_ir, make_jaxpr
from stax.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
from stax.transforms.jit import clear_caches, jit
from stax.transforms.joint import JointGraph, joint_graph
from stax.transforms.pmap import pmap
from stax.transforms.sharding import NamedSharding, reshard, set_mesh, shard_map
from stax.transforms.sharding import PartitionSpec as P
from stax.transforms.vmap import vmap
from stax.typing import Array

__all__ = [
    "Array",
    "Binomial",
    "Device",
    "Graph",
    "JointGraph",
    "NamedSharding",
    "P",
    "Shard",
    "ShapeDtypeStruct",
    "at",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "checkpoint_sequential",
    "clear_caches",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "explain",
    "explain_cache_misses",
    "float0",
    "from_dlpack",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "joint_graph",
    "jvp",
    "lax",
    "legacy_prng_key",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_ir",
    "make_jaxpr",
    "make_mesh",
    "memory_curve",
    "named_call",
    "named_scope",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "pure_callback",
    "remat",
    "reshard",
    "set_mesh",
    "shard_map",
    "sharding",
    "softmax_custom_jvp",
    "stop_gradient",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "typeof",
    "typing",
    "value_and_grad",
    "vjp",
    "vmap",
]
__all__ += errors.__all__
del _text


def _scipy_ufunc(ufunc: _np.ufunc) -> Callable[..., Any] | None:
    """The traced version of a ufunc of `scipy.special`, None when there is none."""
    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special"), name, None) is not ufunc:
        return None
    return getattr(import_module("stax.scipy.special"), name, None)


_COMPUTE.append(_compute)
_ELSEWHERE.append(_bound)
_UFUNC_FINDERS.append(_scipy_ufunc)
