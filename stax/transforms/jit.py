"""`jit`: specialise a function on the types of its arguments and run the compiled program.

Input: a Python function over pytrees of arrays.  Output: a callable that traces the function once
per signature (structure, dtypes, shapes, static values), compiles the graph and keeps the result.
Inside another transformation a call becomes one equation of the primitive `jit`, whose row below
says how it is differentiated, batched and transposed: always as `jit` of the transformed graph.
"""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stax.collector import collector_paused
from stax.compile import (
    Lowered,
    Traced,
    executable,
    has_entry,
    new_dispatcher,
)
from stax.core.aval import Aval, aval_of
from stax.core.functionalize import assign, mark_arguments
from stax.core.graph import Graph
from stax.core.staging import eval_graph, lift_constants, stage
from stax.core.statics import static_key
from stax.core.trace import STATE, Tracer, bind, is_tracing
from stax.dtypes import is_supported, promote, untraceable_hint
from stax.errors import (
    ConfigurationError,
    DtypeError,
    MutationError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
)
from stax.forked import Lock
from stax.programs.options import CompileOptions
from stax.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
    treedef_is_leaf,
)
from stax.pytree_registry import NODES
from stax.transforms.arguments import check_callable, finished, static_arguments
from stax.transforms.budget import budget_bytes, plain_budget
from stax.transforms.grad import Product
from stax.transforms.inspect import ShapeDtypeStruct
from stax.transforms.jit_call import jit_p

__all__ = ["JitFunction", "jit"]


_VALUES = np.ndarray | Tracer | bool | int | float | complex | np.generic


@dataclass(slots=True)
class Entry:
    """What is known for one signature."""

    graph: Graph
    out_tree: PyTreeDef
    captured: list[Any] = field(default_factory=list)
    written: list[int] = field(default_factory=list)  # leaves whose final values come back
    seconds: float = 0.0  # that tracing took
    is_product: bool = False  # the result is a Hessian product, which NumPy reads as an array

    def result(self, outs: Sequence[Any]) -> Any:
        """The function's result from its flat values."""
        tree = tree_unflatten(self.out_tree, outs)
        return Product(tree) if self.is_product else tree

    @property
    def template(self) -> Any:
        """The dispatcher's description of the result."""
        whole = output_template(self.out_tree)
        return ("call", lambda *parts: Product(parts), whole[1]) if self.is_product else whole


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    donate_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    memory_budget: int | float | str | None = None,
    write_back: bool = False,
    strict: bool | None = None,
    matmul_precision: str | None = None,
    inline: bool = False,
    in_shardings: Any = None,
    out_shardings: Any = None,
    keep_unused: bool = False,
    dynamic_batch: bool = False,
) -> Any:
    """Return `fun` compiled: traced once per signature, then run as one native program.

    Args:
      fun: a function of pytrees of arrays and Python scalars.
      static_argnums, static_argnames: arguments that are compile-time constants (hashable).
      donate_argnums, donate_argnames: arguments whose storage may be reused; accepted, and never
        needed for correctness.
      backend: "c" (default), "triton" or "numpy" (the reference).
      memory_budget: bytes, text such as "512MiB", or a fraction of the save-everything peak.  Under
        another `jit` there is one program, that of the outer one, with the outer one's budget; what
        is left of this one is a limit on what its forward part saves for its backward part.
      write_back: store the final values of written arguments into the caller's arrays.
      strict: raise StrictModeError where something would run outside compiled code.
      matmul_precision: how a device multiplies float32 matrices: "highest" (default) exactly;
        "tf32" rounds the operands to 11 bits first, several times as fast.  The CPU is exact.
      inline, in_shardings, out_shardings, keep_unused: accepted for compatibility, without effect:
        a program has one device.
      dynamic_batch: let sizes be variables of the native program from the second size on, so that
        further sizes are traced but not compiled; without it, from the third size on.

    Raises ConcretizationError where Python needs a traced number, and the errors of the
    operations used, at the first call.

    >>> import numpy as np, stax
    >>> stax.jit(lambda x: np.sin(x) * 2)(np.zeros(3))
    array([0., 0., 0.])
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            backend=backend,
            memory_budget=memory_budget,
            write_back=write_back,
            strict=strict,
            matmul_precision=matmul_precision,
            inline=inline,
            dynamic_batch=dynamic_batch,
        )
    check_callable(fun, "jit")
    if memory_budget is not None:
        budget_bytes(memory_budget, 1)
    if not isinstance(dynamic_batch, bool | np.bool_):
        raise ConfigurationError(
            f"jit: dynamic_batch={dynamic_batch!r} is neither True nor False",
            hint="every size may vary: there is no axis or argument to name",
        )
    options = CompileOptions.of(
        backend,
        plain_budget(memory_budget),
        strict,
        matmul_precision,
        dynamic_batch=bool(dynamic_batch),
    )
    nums, names = static_arguments("jit", fun, static_argnums, static_argnames)
    function = JitFunction(fun, nums, names, options, write_back)
    return function.dispatcher


# Every function made by `jit` that is still in use.
_FUNCTIONS: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def clear_caches() -> None:
    """Forget every signature of every function made by `jit`; each is traced again when called.

    Programs in use stay valid, and compiled kernels stay on disk.
    """
    for function in list(_FUNCTIONS):
        function.clear_cache()


class JitFunction:
    """A function that compiles itself per signature.

    What `jit` returns is its `dispatcher`: a callable that runs a known signature's program
    without entering Python, and comes here (`call`) for everything else.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        options: CompileOptions,
        write_back: bool = False,
    ) -> None:
        self._fun = fun
        self._options = options
        self._write_back = write_back
        self._entries: dict[Any, Entry] = {}
        self._lock = Lock()
        self._static_argnums, self._static_argnames = static_argnums, static_argnames
        self.statics = (*self._static_argnums, *self._static_argnames)
        self.dispatcher: Any = new_dispatcher(self.call, options.backend)
        functools.update_wrapper(self.dispatcher, fun, updated=())
        for name in ("trace", "lower", "eval_shape", "clear_cache", "statics"):
            setattr(self.dispatcher, name, getattr(self, name))
        _FUNCTIONS.add(self)

    def __repr__(self) -> str:
        return f"<stax.jit of {getattr(self._fun, '__qualname__', self._fun)!r}>"

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call with arguments the dispatcher does not know, and teach it."""
        if STATE.jit_disabled:
            return self._fun(*args, **kwargs)
        entry, leaves = self._resolve(args, kwargs)
        if entry.written:
            return self._call_writing(entry, leaves)
        if is_tracing() or entry.captured or any(isinstance(v, Tracer) for v in leaves):
            name, graph = entry.graph.name, entry.graph
            params = {"graph": graph, "name": name, "options": self._options}
            outs: Sequence[Any] = bind(jit_p, *entry.captured, *leaves, **params)
            return entry.result(outs)
        missing = next((v for v in leaves if not isinstance(v, _VALUES)), None)
        if missing is not None and not hasattr(missing, "__array__"):
            raise DtypeError(
                f"{type(missing).__name__} describes an argument of {self!r} and has no value",
                operands=[missing],
                hint="use .trace, .lower or stax.eval_shape to go by types alone",
            )
        if STATE.debug_nans or STATE.debug_infs:
            # NumPy computes each operation: those of an array on a device would be programs again.
            given = [v if isinstance(v, _VALUES) else np.asarray(v) for v in leaves]
            return tree_unflatten(entry.out_tree, finished(eval_graph(entry.graph, given), given))
        program = executable(entry.graph, self._options)
        outs = program.run(leaves)
        if has_entry(program):
            self.dispatcher.add_entry(
                args,
                kwargs,
                program.entry,
                program.results,
                entry.template,
                statics=self.statics,
                context=program.context_address,
                release_gil=program.is_long,
                on_error=program.fail,
                keep_alive=program,
            )
        return entry.result(outs)

    def _call_writing(self, entry: Entry, leaves: list[Any]) -> Any:
        """Call, then store the final values of written arguments into the caller's arrays."""
        targets = [leaves[k] for k in entry.written]
        for k in entry.written:
            if not isinstance(leaves[k], Tracer):
                _check_stores(leaves[k])
                _check_apart(k, leaves)
        params = {"graph": entry.graph, "name": entry.graph.name, "options": self._options}
        outs = bind(jit_p, *entry.captured, *leaves, **params)
        for target, value in zip(targets, outs[len(outs) - len(targets) :], strict=True):
            if isinstance(target, Tracer):
                assign(target, value)
            else:
                np.copyto(target, value)
        return entry.result(outs[: len(outs) - len(targets)])

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        """The entry for these arguments' signature, and the dynamic leaves."""
        key, leaves, static_args, static_kwargs, dynamic = self._signed(args, kwargs)
        entry = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key)
                if entry is None:
                    tree, avals = key[:2]
                    entry = self._trace(tree, avals, static_args, static_kwargs, dynamic)
                    if not entry.captured:
                        self._entries[key] = entry
        return entry, leaves

    def _signed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any], dict[int, Any], dict[str, Any], Any]:
        """The signature of these arguments, their dynamic leaves, and what is static or not."""
        nums, names = self._static_argnums, self._static_argnames
        if nums or names:
            static_args = {k: args[k] for k in nums if k < len(args)}
            static_kwargs = {k: kwargs[k] for k in names if k in kwargs}
            dynamic: Any = (
                tuple(None if k in static_args else a for k, a in enumerate(args)),
                {k: v for k, v in kwargs.items() if k not in static_kwargs},
            )
            statics = self._hashed(static_args, static_kwargs)
        else:
            static_args, static_kwargs = {}, {}
            dynamic, statics = (args, kwargs), ()
        leaves, tree = tree_flatten(dynamic)
        avals = tuple(_checked_aval(leaf, self, dynamic) for leaf in leaves)
        # Fields that are no leaves, and keys, are constants of the program as well.
        statics += tuple(
            [static_key(node[2]) for node in tree.spec if node and node[2] is not None]
        )
        key = (tree, avals, statics, STATE.loops)
        return key, leaves, static_args, static_kwargs, dynamic

    def _hashed(self, static_args: dict[int, Any], static_kwargs: dict[str, Any]) -> Any:
        key = []
        for name, value in (*static_args.items(), *static_kwargs.items()):
            try:
                hash(value)
            except TypeError:
                raise StaticArgumentError(
                    f"static argument {name!r} of {self!r} is {type(value).__name__} {value!r}, "
                    "which cannot be hashed",
                    hint="pass a tuple instead of a list, or make the argument dynamic",
                ) from None
            if isinstance(value, Tracer):
                raise StaticArgumentError(
                    f"static argument {name!r} of {self!r} is a traced value of type {value.aval}, "
                    "which is not known while tracing",
                    hint="make the argument dynamic, or pass a plain Python value",
                )
            key.append((name, static_key(value)))
        return tuple(key)

    def _trace(
        self,
        tree: PyTreeDef,
        avals: Sequence[Aval],
        static_args: dict[int, Any],
        static_kwargs: dict[str, Any],
        dynamic: Any,
    ) -> Entry:
        out_tree: list[PyTreeDef] = []
        written: list[int] = []
        is_product: list[bool] = []

        def flat(*leaves: Any) -> list[Any]:
            if not self._write_back:
                mark_arguments(leaves)
            args, kwargs = tree_unflatten(tree, leaves)
            args = tuple(static_args.get(k, a) for k, a in enumerate(args))
            result = self._fun(*args, **kwargs, **static_kwargs)
            is_product.append(isinstance(result, Product))
            outs, structure = tree_flatten(result)
            out_tree.append(structure)
            written.extend(k for k, v in enumerate(leaves) if getattr(v, "version", 0))
            return [*outs, *(leaves[k] for k in written)]

        names = argument_names(self._fun, dynamic)
        name = getattr(self._fun, "__name__", "f")
        start = time.perf_counter()
        with collector_paused():
            graph = stage(flat, avals, names, name if name.isidentifier() else "f")
            graph, captured = lift_constants(graph)
        seconds = time.perf_counter() - start
        if not captured and not written:
            graph.cache["retrace"] = functools.partial(_retraced, flat, graph, names)
        return Entry(graph, out_tree[0], captured, written, seconds, is_product[0])

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments (arrays or ShapeDtypeStructs) without compiling."""
        entry, _ = self._resolve(args, kwargs)
        return Traced(
            entry.graph,
            entry.out_tree,
            self._options,
            self._signature(args, kwargs, entry),
            {"trace": entry.seconds},
        )

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The result for these arguments as a tree of `ShapeDtypeStruct`."""
        entry, _ = self._resolve(args, kwargs)
        avals = entry.graph.out_avals[: len(entry.graph.outputs) - len(entry.written)]
        shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak) for a in avals]
        return tree_unflatten(entry.out_tree, shapes)

    def lower(self, *args: Any, device: str | None = None, **kwargs: Any) -> Lowered:
        """Trace and lower for these arguments; nothing is compiled or run.

        Args:
          device: "cpu", or an architecture such as "cuda:sm_90", which need not be there; by
            default what the back end runs on.
        """
        return self.trace(*args, **kwargs).lower(device=device)

    def _signature(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], entry: Entry
    ) -> Callable[..., Any]:
        """A function from call arguments of this signature to dynamic leaves.

        It refuses arguments of another one: the program would read their memory as its own types.
        """
        tree, wanted, statics, _ = self._signed(args, kwargs)[0]
        names = [v.name for v in entry.graph.inputs[len(entry.captured) :]]

        def leaves_of(*call_args: Any, **call_kwargs: Any) -> list[Any]:
            key, leaves = self._signed(call_args, call_kwargs)[:2]
            if key[0] != tree:
                raise PytreeError(
                    f"{self!r} was compiled for arguments of the structure {tree}, and is given "
                    f"{key[0]}",
                    hint=_OTHER_TYPES,
                )
            if key[2] != statics:
                raise StaticArgumentError(
                    f"{self!r} was compiled for other values of its static arguments",
                    hint=_OTHER_TYPES,
                )
            for name, own, aval in zip(names, key[1], wanted, strict=True):
                if own is not aval and not _stands_for(own, aval):
                    kind = DtypeError if own.shape == aval.shape else ShapeError
                    raise kind(
                        f"argument {name} of {self!r} is {own.strong()}; it was compiled for "
                        f"{aval.strong()}",
                        hint=_OTHER_TYPES,
                    )
            return leaves

        return leaves_of

    def clear_cache(self) -> None:
        """Forget every signature; programs in use stay valid."""
        self._entries.clear()
        self.dispatcher.clear_entries()


def _retraced(
    flat: Callable[..., Any],
    graph: Graph,
    names: Sequence[str | None],
    loops: Callable[[int], Any],
) -> Graph | None:
    """`graph` traced again with loops that keep less; None where that makes no difference."""
    if not _has_loops(graph):
        return None
    before = STATE.loops
    STATE.loops = loops
    try:
        again, captured = lift_constants(stage(flat, graph.in_avals, names, graph.name))
    finally:
        STATE.loops = before
    same = [a.strong() for a in again.out_avals] == [a.strong() for a in graph.out_avals]
    return again if same and not captured else None


def _has_loops(graph: Graph) -> bool:
    """Whether there is a scan in the graph or in one that it calls."""
    for eqn in graph.eqns:
        if eqn.op == "scan" or any(
            isinstance(p, Graph) and _has_loops(p) for p in eqn.params.values()
        ):
            return True
    return False


def output_template(tree: PyTreeDef) -> Any:
    """The dispatcher's description of an output structure; results are numbered in order."""
    count = iter(range(tree.num_leaves))

    def build(part: PyTreeDef) -> Any:
        if treedef_is_leaf(part):
            return next(count)
        children = [build(child) for child in part.children()]
        data = part.node_data()
        if data is None or data[0] is type(None):
            return None
        kind, aux = data
        if kind is tuple:
            return ("tuple", children)
        if kind is list:
            return ("list", children)
        if kind is dict:
            return ("dict", list(aux), children)
        node: Any = NODES[kind]
        unflatten = node.unflatten
        return ("call", lambda *parts: unflatten(aux, list(parts)), children)

    return build(tree)


def _check_stores(target: Any) -> None:
    """Raise MutationError unless values can be stored into the caller's `target`."""
    if isinstance(target, np.ndarray) and target.flags.writeable:
        return
    what = "a read-only array" if isinstance(target, np.ndarray) else type(target).__name__
    raise MutationError(
        f"write_back=True: the function writes into an argument that is {what}",
        hint="pass a writable NumPy array",
    )


def _overlap(a: Any, b: Any) -> bool:
    try:
        # NumPy's stubs know two of its values for max_work only.
        return bool(np.shares_memory(a, b, max_work=1 << 16))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _check_apart(written: int, leaves: Sequence[Any]) -> None:
    """Raise MutationError when another argument looks at the memory that is written to."""
    target = leaves[written]
    for k, other in enumerate(leaves):
        if k != written and isinstance(other, np.ndarray) and _overlap(target, other):
            raise MutationError(
                "write_back=True: an argument that is written to shares memory with another "
                "argument, which would not see the write",
                operands=[target, other],
                hint="pass a copy of one of them, or the whole array once and slice it inside",
            )


_OTHER_TYPES = "call the function that jit returned, which compiles for each, or lower it for these"


def _stands_for(given: Aval, wanted: Aval) -> bool:
    """Whether a value is of the type, or a Python number that becomes it."""
    if given.shape != wanted.shape:
        return False
    return given.dtype == wanted.dtype or (
        given.weak and promote([wanted.dtype], [given.dtype]) == wanted.dtype
    )


def _checked_aval(leaf: Any, fun: Any, tree: Any) -> Aval:
    if isinstance(leaf, _VALUES):
        aval = aval_of(leaf)
        too_large = type(leaf) is int and not -(1 << 63) <= leaf < 1 << 63
        if is_supported(aval.dtype) and not too_large:
            return aval
    elif hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return Aval(tuple(leaf.shape), np.dtype(leaf.dtype))
    paths, _ = tree_flatten_with_path(tree)
    where = next((keystr(p[1:]) for p, v in paths if v is leaf), "?")
    if type(leaf) is int:
        raise DtypeError(
            f"argument {where} of {fun!r} is {leaf}, which no 64-bit integer holds",
            hint="pass a float, np.uint64(n) below 2**64, or make the argument static",
        )
    got = getattr(leaf, "dtype", None)
    if got is not None:
        raise DtypeError(
            f"argument {where} of {fun!r} has dtype {got}, which cannot be traced",
            hint=untraceable_hint(np.dtype(got)),
        )
    raise StaticArgumentError(
        f"argument {where} of {fun!r} is {type(leaf).__name__} {leaf!r}, not an array or a number",
        hint="mark it static (static_argnums / static_argnames), or register its class as a pytree",
    )


def argument_names(fun: Callable[..., Any], dynamic: tuple[Any, Any]) -> list[str | None]:
    """A readable name for each leaf of `(args, kwargs)`: `x`, `params_0`, `state_mu`."""
    args, kwargs = dynamic
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    result: list[str | None] = []
    for path, _ in tree_flatten_with_path((args, kwargs))[0]:
        part, key, *rest = path
        head: Any
        if part.idx == 0:
            k = key.idx
            variadic = k >= len(names) or parameters[k].kind is parameters[k].VAR_POSITIONAL
            head = f"arg{k}" if variadic else names[k]
        else:
            head = key.key
        text = "_".join([str(head), *(_plain(k) for k in rest)])
        result.append(text if text.isidentifier() else None)
    return result


def _plain(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return "x"
