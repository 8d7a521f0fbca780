"""`stax.export`: a function compiled ahead of time, kept in a file, and called without tracing.

Input: a function and arguments, or arrays' shapes and dtypes.  Output: an `Exported`, which holds
the programs of the function and of its derivatives up to an order, runs them, saves them, and
writes the function as a C file that needs nothing but a C compiler.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stax import __version__
from stax.backends.c.standalone import Described, foreign_steps, is_c_name, standalone
from stax.compile import has_entry, new_dispatcher
from stax.core.aval import Aval, aval_of
from stax.core.trace import Tracer, is_tracing
from stax.dtypes import WEAK_DTYPES, promote
from stax.errors import ConfigurationError, DtypeError, ExportError, PytreeError, ShapeError
from stax.export.artifact import packed, unpacked, write
from stax.export.structures import structure_from, structure_record
from stax.export.units import Unit, unit_of
from stax.primitives.casts import convert
from stax.pytree import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from stax.transforms.arguments import check_callable, name_of
from stax.transforms.jit import jit, output_template

__all__ = ["Exported", "deserialize", "export", "load"]


@dataclass(frozen=True)
class _Signature:
    """How an exported function is called: structures, names of leaves, values fixed at export."""

    name: str
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    statics: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


class Exported:
    """A function compiled for arguments of fixed shapes and dtypes; `stax.export` makes it.

    Attributes:
      fun_name: the function's name.
      in_tree, in_avals: structure of `(args, kwargs)`, and the types of its leaves.
      out_tree, out_avals: structure of the result, and the types of its leaves.
      arguments, results: a name for every leaf, such as `params['w']` and `result[0]`.
      vjp_order: how often it can be differentiated.
      platforms: what it runs on: `("cpu",)`.
    """

    platforms = ("cpu",)

    def __init__(
        self,
        signature: _Signature,
        unit: Unit,
        vjp_order: int,
        again: Callable[[int], Exported] | None = None,
    ) -> None:
        self._signature = signature
        self._again = again  # exports the function with another order; unknown after loading
        self._unit = unit
        self.vjp_order = vjp_order
        self.fun_name = signature.name
        self.in_tree, self.out_tree = signature.in_tree, signature.out_tree
        self.in_avals, self.out_avals = unit.in_avals, unit.out_avals
        self.arguments, self.results = signature.arguments, signature.results
        function: Any = new_dispatcher(self._call)
        function.__name__ = function.__qualname__ = signature.name
        self._dispatcher = function

    def __repr__(self) -> str:
        pairs = zip(self.arguments, self.in_avals, strict=True)
        taken = ", ".join(f"{name}: {aval}" for name, aval in pairs)
        given = ", ".join(map(str, self.out_avals))
        return f"<exported {self.fun_name}({taken}) -> {given}, vjp_order={self.vjp_order}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies are made through `serialize`."""
        return deserialize, (self.serialize(),)

    @property
    def call(self) -> Callable[..., Any]:
        """The function: call it like the one that was exported, without its static arguments.

        It runs under every transformation: `jit`; `vmap` (one example after the other); `grad`,
        `vjp`, `jvp` and their like up to `vjp_order` times.

        Raises:
          PytreeError, ShapeError, DtypeError: the arguments are not of the structure, shapes and
            dtypes it was compiled for.
          NonDifferentiableError: it is differentiated more often than `vjp_order` times.
        """
        function: Callable[..., Any] = self._dispatcher
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `call`."""
        return self._dispatcher(*args, **kwargs)

    def as_text(self, stage: str = "graph") -> str:
        """What it computes: "graph", the operations after simplification, or "source", the C text.

        Raises:
          ConfigurationError: another stage.
        """
        if stage not in ("graph", "source"):
            raise ConfigurationError(f"stage={stage!r} is not one of 'graph', 'source'")
        return self._unit.text if stage == "graph" else self._unit.image.text

    def serialize(self, vjp_order: int | None = None) -> bytes:
        """The bytes of the file that `save` writes.

        Args:
          vjp_order: another order than it was exported with.

        Raises:
          ExportError: a container among the arguments or results has no spelling in a file, or it
            was loaded and does not have that order.
        """
        if vjp_order is not None and vjp_order != self.vjp_order:
            if self._again is None:
                raise ExportError(
                    f"{self.fun_name} was exported with vjp_order={self.vjp_order}, and without "
                    f"the function itself it cannot be given vjp_order={vjp_order}",
                    hint="export the function again",
                )
            return self._again(vjp_order).serialize()
        signature = self._signature
        manifest = {
            "name": signature.name,
            "origin": self._unit.origin,
            "vjp_order": self.vjp_order,
            "in_tree": structure_record(signature.in_tree),
            "out_tree": structure_record(signature.out_tree),
            "arguments": list(signature.arguments),
            "results": list(signature.results),
            "statics": list(signature.statics),
        }
        return packed(manifest, self._unit)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the function into a file that `stax.export.load` reads, whole or not at all.

        >>> exported = stax.export(np.sin)(np.zeros(3))
        >>> exported.save("sin.stax")
        >>> stax.export.load("sin.stax").call(np.zeros(3))
        array([0., 0., 0.])
        """
        write(Path(path), self.serialize())

    def write_c(
        self,
        directory: str | os.PathLike[str],
        name: str | None = None,
        *,
        lapack: bool = False,
    ) -> tuple[Path, Path]:
        """Write the function as `name.c` and `name.h`; returns their paths.

        They need gcc or clang and the mathematical library, and nothing of Python: the header says
        how to compile them and what to pass. The derivatives are not in them; for a gradient,
        export `stax.grad(f)` or `stax.value_and_grad(f)`.

        Args:
          directory: where the files go; made if it is not there.
          name: the name of the C function; that of the Python function by default.
          lapack: whether it may call LAPACK, which is then linked to it, for linear algebra.

        Raises:
          ExportError: the program has steps that only Python can run, or the name is not one of C.
        """
        chosen = _c_name(self.fun_name) if name is None else name
        if not is_c_name(chosen):
            raise ExportError(f"name={name!r} cannot be the name of a C function")
        image, signature = self._unit.image, self._signature
        steps = foreign_steps(image, lapack)
        if steps:
            raise ExportError(
                f"{self.fun_name} cannot be written as C: these operations run in Python, or in a "
                "library that it has loaded:\n  " + "\n  ".join(steps),
                hint="replace them, compute them outside of the function, link a LAPACK (lapack="
                "True), or use save() and load the function in Python",
            )
        described = Described(
            chosen, signature.arguments, signature.results, signature.statics, __version__
        )
        source, header = standalone(image, described)
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"{chosen}.c", folder / f"{chosen}.h"
        for path, text in zip(paths, (source, header), strict=True):
            write(path, text.encode())
        return paths

    # -- calls ------------------------------------------------------------------------------

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the dispatcher does not know, and what it learns from it."""
        try:
            leaves = self.in_tree.flatten_up_to((args, kwargs), "(args, kwargs)")
        except PytreeError as error:
            fixed = f" (then fixed: {', '.join(self._signature.statics)})"
            reason = str(error).partition("\n")[0]
            raise PytreeError(
                f"{self._signature} was called with arguments of another structure than it was "
                f"exported for{fixed if self._signature.statics else ''}: {reason}"
            ) from None
        triples = zip(leaves, self.in_avals, self.arguments, strict=True)
        values = [_checked(v, aval, name, self.fun_name) for v, aval, name in triples]
        if is_tracing() or any(isinstance(v, Tracer) for v in values):
            return tree_unflatten(self.out_tree, self._unit.bind(*values))
        program = self._unit.program
        outs = program.run(values)
        exact = all(
            aval_of(v).dtype == aval.dtype for v, aval in zip(leaves, self.in_avals, strict=True)
        )
        if has_entry(program) and exact:
            self._dispatcher.add_entry(
                args,
                kwargs,
                program.entry,
                program.results,
                output_template(self.out_tree),
                context=program.context_address,
                release_gil=program.is_long,
                on_error=program.fail,
                keep_alive=program,
            )
        return tree_unflatten(self.out_tree, outs)


def _c_name(name: str) -> str:
    """The name of a Python function as one of C: `f` for a lambda."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return "f" if word == "lambda" or not is_c_name(word) else word


def _checked(value: Any, aval: Aval, name: str, function: str) -> Any:
    """`value` if it is of the type that the argument `name` was compiled for."""
    if not isinstance(value, Tracer | np.ndarray | np.generic) and type(value) not in WEAK_DTYPES:
        if not hasattr(value, "__array__"):
            raise DtypeError(
                f"the argument {name} of the exported function {function} is "
                f"{type(value).__name__} {str(value)[:60]!r}, not an array or a number"
            )
        value = np.asarray(value)
    given = aval_of(value)
    if given.shape != aval.shape:
        raise ShapeError(
            f"the argument {name} of the exported function {function} has shape "
            f"{list(given.shape)}; it was compiled for {aval.dtype}{list(aval.shape)}",
            hint="export the function for this shape as well: one file serves one set of shapes",
        )
    if given.dtype == aval.dtype:
        return value
    if given.weak and promote([aval.dtype], [given.dtype]) == aval.dtype:
        is_traced = isinstance(value, Tracer)
        return convert(value, aval.dtype) if is_traced else np.asarray(value, aval.dtype)
    raise DtypeError(
        f"the argument {name} of the exported function {function} has dtype {given.dtype}; it was "
        f"compiled for {aval.dtype}{list(aval.shape)}",
        hint=f"convert it: {name}.astype({str(aval.dtype)!r})",
    )


# -- making one -----------------------------------------------------------------------------------


def export(
    fun: Callable[..., Any],
    *,
    vjp_order: int = 0,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    platforms: Sequence[str] | None = None,
) -> Callable[..., Exported]:
    """Return a function from arguments (or their ShapeDtypeStructs) to `fun` compiled for them.

    Args:
      fun: a function of pytrees of arrays; one made by `stax.jit` keeps its static arguments and
        its memory budget.
      vjp_order: how often the result can be differentiated; each order holds three times the
        programs.
      static_argnums, static_argnames: arguments fixed at their values here; the exported function
        is called without them.
      platforms: None or `("cpu",)`.

    Raises:
      ExportError: `fun` calls Python code (a callback), or writes into its arguments.
      ConfigurationError: a negative order, or another platform.

    >>> exported = stax.export(lambda x: np.sum(x**2), vjp_order=1)(np.zeros(3))
    >>> stax.grad(exported.call)(np.arange(3.0))
    array([0., 2., 4.])
    """
    check_callable(fun, "export")
    _check_order(vjp_order)
    if platforms is not None and tuple(platforms) != Exported.platforms:
        raise ConfigurationError(
            f"platforms={platforms!r}: exported functions run on ('cpu',) alone"
        )
    fixed = static_argnums != () or static_argnames != ()
    jitted: Any = fun
    if fixed or not isinstance(getattr(fun, "statics", None), tuple):
        jitted = jit(fun, static_argnums=static_argnums, static_argnames=static_argnames)

    @functools.wraps(fun)
    def specialised(*args: Any, **kwargs: Any) -> Exported:
        return _exported(jitted, args, kwargs, vjp_order)

    return specialised


def _check_order(vjp_order: Any) -> None:
    if isinstance(vjp_order, bool) or not isinstance(vjp_order, int) or vjp_order < 0:
        raise ConfigurationError(f"vjp_order={vjp_order!r} is not a number of derivatives")


def _exported(
    jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], vjp_order: int
) -> Exported:
    traced = jitted.trace(*args, **kwargs)
    graph, name = traced.graph, name_of(jitted.__wrapped__)
    fixed = {k: v for k, v in enumerate(args) if k in jitted.statics}
    named = {k: v for k, v in kwargs.items() if k in jitted.statics}
    positions = [k for k in range(len(args)) if k not in fixed]
    given = {k: v for k, v in kwargs.items() if k not in named}
    dynamic = (tuple(args[k] for k in positions), given)
    leaves, in_tree = tree_flatten(dynamic)
    if len(graph.inputs) != len(leaves):
        raise ExportError(
            f"{name} cannot be exported here: it closes over values that are being traced",
            hint="export it outside of the transformation, or pass them as arguments",
        )
    if len(graph.outputs) != traced.out_tree.num_leaves:
        raise ExportError(
            f"{name} cannot be exported: it writes into its arguments (write_back=True)",
            hint="return the new values instead",
        )
    parameters = _parameters(jitted, len(args))
    paths = [path for path, _ in tree_flatten_with_path(dynamic)[0]]
    results = [0] * traced.out_tree.num_leaves
    out_paths = tree_flatten_with_path(tree_unflatten(traced.out_tree, results))[0]
    signature = _Signature(
        name,
        in_tree,
        traced.out_tree,
        tuple(_path_text(path, [parameters[k] for k in positions]) for path in paths),
        tuple("result" + keystr(path) for path, _ in out_paths),
        tuple(
            f"{parameters[k] if isinstance(k, int) else k}={v!r}"
            for k, v in (fixed | named).items()
        ),
    )
    options = replace(traced.options, backend="c", strict=False)

    def at_order(order: int) -> Exported:
        _check_order(order)
        unit = unit_of(graph, options, order, f"{name} (vjp_order={order})")
        return Exported(signature, unit, order, at_order)

    return at_order(vjp_order)


def _parameters(fun: Callable[..., Any], count: int) -> list[str]:
    """A name for each of `count` positional arguments."""
    try:
        found = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        found = []
    names: list[str] = []
    for parameter in found:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{k}]" for k in range(count - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return [*names, *(f"arg{k}" for k in range(len(names), count))][:count]


def _path_text(path: tuple[Any, ...], positional: Sequence[str]) -> str:
    part, key, *rest = path
    head = positional[key.idx] if part.idx == 0 else str(key.key)
    return head + keystr(tuple(rest))


def load(path: str | os.PathLike[str]) -> Exported:
    """The exported function in a file that `Exported.save` wrote.

    Nothing is traced; the C code in the file is compiled for this machine when the function is
    first called, or taken from the cache. Load only files that you would run as programs.

    Raises:
      OSError: the file cannot be read.
      ExportError: it is damaged, of another version, or something else altogether.
    """
    return _from_bytes(Path(path).read_bytes(), str(path))


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported function in the bytes that `Exported.serialize` gave; errors as for `load`."""
    return _from_bytes(bytes(blob), "the blob")


def _from_bytes(data: bytes, place: str) -> Exported:
    manifest, unit = unpacked(data, place)
    try:
        signature = _Signature(
            str(manifest["name"]),
            structure_from(manifest["in_tree"]),
            structure_from(manifest["out_tree"]),
            *(tuple(map(str, manifest[name])) for name in ("arguments", "results", "statics")),
        )
        order = int(manifest["vjp_order"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(f"{place} is damaged: {type(error).__name__}: {error}") from error
    counts = len(signature.arguments), len(signature.results)
    if counts != (len(unit.in_avals), len(unit.out_avals)):
        raise ExportError(f"{place} is damaged: its structures do not fit its program")
    return Exported(signature, unit, order)
