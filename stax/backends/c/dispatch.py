"""The dispatcher: a callable that runs compiled programs on arguments it has seen the like of.

Input: a slow path, and entries (signature, program, results). Output: a callable object. A call
whose arguments match an entry runs its program straight away; any other call, and every call
while a trace is active in this thread, goes to `slow_path(args, kwargs)`, which usually compiles,
adds an entry and runs it through `call_fast`. The object is written in C (`dispatch.c`), built once
per machine and Python with the same compiler as the kernels; without a compiler or Python's
headers `PythonDispatcher` does the same, call by call.

Arguments that can match: numpy.ndarray (exact type, native byte order) by dtype and shape, copied
where it is not C-contiguous and aligned; Python float, int (within 64 bits), bool and complex by
type; NumPy scalars by type; None; exact tuples, lists, dicts, namedtuples and instances of
registered classes of these; static arguments by equality. Leaves are numbered in tree order:
positional arguments, then keyword arguments by name, dicts by sorted key.

A program is the address of `int32_t run(void **inputs, void **outputs, void *context)`: `inputs`
are the leaves' data (a Python float as double, int as int64_t, bool as uint8_t, complex as two
doubles), then the constants; `outputs` the results' data; `context` a 64-byte aligned workspace,
private to the call, when `workspace_bytes` is not 0, and the address given otherwise. Or it is a
Python callable `run(inputs, outputs)` over the leaves and the result arrays.

An output tree is an integer (that result), None, ("tuple", [...]), ("list", [...]),
("dict", keys, [...]), ("call", function, [...]) or ("const", object).
"""

from __future__ import annotations

import copyreg
import ctypes
import importlib.machinery
import importlib.util
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any, Protocol

import numpy as np

from stax.backends.c.ahead import Unit, load
from stax.backends.c.toolchain import Toolchain, find_toolchain
from stax.config import options
from stax.core.statics import static_key
from stax.core.trace import Tracer, plain_method, plain_subscript
from stax.errors import CompilationError, CompilerNotFoundError
from stax.forked import Lock
from stax.pytree_registry import node_of

__all__ = [
    "Dispatcher",
    "PythonDispatcher",
    "SlowPath",
    "compiled_dispatcher_fault",
    "empty_result",
    "make_dispatcher",
    "release_pool",
    "set_trace_depth",
]

SlowPath = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Results = Sequence[tuple[Any, Sequence[int]]]


class Dispatcher(Protocol):
    """What both dispatchers offer; attributes may be set freely (`__name__`, `lower`, ...)."""

    slow_path: SlowPath | None

    @property
    def entry_count(self) -> int:
        """The number of entries held."""

    @property
    def hits(self) -> int:
        """How many calls an entry took."""

    @property
    def misses(self) -> int:
        """How many calls went the slow way."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the matching entry, or the slow path."""

    def add_entry(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: int | Callable[..., object],
        outputs: Results,
        output_tree: Any,
        *,
        constants: Sequence[np.ndarray] = (),
        statics: Collection[int | str] = (),
        context: int | None = None,
        workspace_bytes: int = 0,
        release_gil: bool = False,
        on_error: Callable[[int], Any] | None = None,
        donated: Mapping[int, int] | None = None,
        keep_alive: object = None,
    ) -> bool:
        """Register a program for calls like `(args, kwargs)`.

        Args:
          args, kwargs: an example of the call; its values are not kept, static ones excepted.
          run: address of the C function, or a Python callable.
          outputs: (dtype, shape) of each result.
          output_tree: how the results are put together.
          constants: arrays passed after the leaves.
          statics: positions and names of arguments compared by value and not passed.
          context, workspace_bytes: the program's third argument.
          release_gil: let other threads run meanwhile (worth it from about 10 microseconds).
          on_error: called with a non-zero return code; raises, or gives the call's value.
          donated: result number -> leaf number whose memory it takes over.
          keep_alive: object that must live as long as the entry (the loaded library).

        Returns:
          False when these arguments have no fast path (nothing was registered).
        """

    def call_fast(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Run the matching entry whatever the trace depth; NotImplemented without one."""

    def clear_entries(self) -> None:
        """Forget every entry."""


# -- the C dispatcher ---------------------------------------------------------------------------

_PARTS = {
    "pool.c": "/* pool.c stands here: fresh_array, pool_empty, pool_bytes, pool_clear */",
    "subscript.c": "/* subscript.c stands here: subscript_hold, set_subscript */",
}
_build_lock = Lock()
_built: dict[tuple[str, ...], tuple[ModuleType | None, str]] = {}


def _load(toolchain: Toolchain | None, alone: bool = True) -> tuple[ModuleType | None, str]:
    """Return the extension module, and why it is missing if it is; see `ahead.load`."""
    key = (toolchain.identity if toolchain is not None else "",)
    with _build_lock:
        if key not in _built:
            _built[key] = _build(toolchain, alone)
        return _built[key]


def _build(toolchain: Toolchain | None, alone: bool) -> tuple[ModuleType | None, str]:
    if toolchain is None:
        return None, "there is no C compiler"
    if sys.implementation.name != "cpython":
        return None, f"{sys.implementation.name} has no vectorcall"
    headers = [sysconfig.get_paths()["include"], np.get_include()]
    for folder, name in zip(headers, ("Python.h", "numpy/arrayobject.h"), strict=True):
        if not (Path(folder) / name).is_file():
            return None, f"{name} is not in {folder}"
    # The text is the cache key: it must name the Python and the NumPy it was built for.
    source = f"/* {sys.version}; {sysconfig.get_config_var('SOABI')}; numpy {np.__version__} */\n"
    folder_of_parts = Path(__file__).parent
    main = (folder_of_parts / "dispatch.c").read_text(encoding="utf-8")
    for name, mark in _PARTS.items():
        main = main.replace(mark, (folder_of_parts / name).read_text(encoding="utf-8"), 1)
    source += main
    extra = [f"-I{folder}" for folder in headers]
    if toolchain.kind == "gcc":
        extra.append("-ftrack-macro-expansion=0")  # the headers are macros: 12 ms less of 350
    if sys.platform == "darwin":
        extra.append("-Wl,-undefined,dynamic_lookup")
    try:
        path = str(load(Unit(source, extra=tuple(extra)), toolchain, alone=alone).path)
    except (CompilationError, CompilerNotFoundError) as error:
        return None, str(error).splitlines()[0]
    loader = importlib.machinery.ExtensionFileLoader("stax_dispatch", path)
    spec = importlib.util.spec_from_file_location("stax_dispatch", path, loader=loader)
    if spec is None:
        return None, f"{path} is no extension module"
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        return None, str(error)
    module.set_flatten_node(_parts_of)
    others = any(built is not None for built, _ in _built.values())
    if options().array_methods and not others:  # two would take each other's for NumPy's
        module.set_subscript(Tracer, plain_subscript, plain_method, np.memmap)
    return module, ""


def _parts_of(value: object) -> tuple[tuple[Any, ...], Any] | None:
    """The children and the rest of an instance of a registered class; None for a leaf."""
    node = node_of(type(value))
    if node is None:
        return None
    children, rest = node.flatten(value)
    return tuple(children), rest


def compiled_dispatcher_fault() -> str:
    """Return why calls are dispatched in Python, in one line; empty when they are not."""
    return _load(find_toolchain())[1]


def make_dispatcher(
    slow_path: SlowPath | None = None, *, compiled: bool = True, alone: bool = True
) -> Dispatcher:
    """Return a dispatcher, the C one where it can be built (and `compiled` is on).

    If it has to be built, and not `alone`, all that compiled programs call is built with it.
    """
    module = _load(find_toolchain(), alone)[0] if compiled else None
    made: Any = PythonDispatcher if module is None else module.Dispatcher
    copyreg.pickle(made, _global_name)
    dispatcher: Dispatcher = made(slow_path)
    return dispatcher


def _global_name(dispatcher: Any) -> str:
    """What `copy` and `pickle` take it for: as a function, itself and its global name."""
    return str(getattr(dispatcher, "__qualname__", "dispatcher"))


def empty_result(dtype: Any, shape: Sequence[int]) -> np.ndarray:
    """Return an uninitialised array as the dispatcher makes results.

    From 256 KiB on its memory comes from, and returns to, a pool: writing to fresh pages costs many
    times a pass over warm ones. At most 256 MiB of arrays below 32 MiB wait in it, and 1 GiB of
    larger ones.
    """
    module = _load(find_toolchain())[0]
    if module is None:
        return np.empty(tuple(shape), dtype)
    array: np.ndarray = module.empty(dtype, tuple(shape))
    return array


def release_pool() -> int:
    """Give the memory kept for large results back to the system; returns how much it was."""
    kept = 0
    for module, _ in _built.values():
        if module is not None:
            kept += module.pool_bytes()
            module.pool_clear()
    return kept


# -- trace depth --------------------------------------------------------------------------------

_depth = threading.local()


def set_trace_depth(depth: int) -> int:
    """Set this thread's trace depth, return the one before; above 0 every call is slow."""
    before: int = getattr(_depth, "value", 0)
    _depth.value = depth
    if not _built and options().array_methods:
        _load(find_toolchain())  # the first trace of a process that has compiled nothing
    for module, _ in _built.values():
        if module is not None:
            module.set_trace_depth(depth)
    return before


# -- the Python dispatcher ----------------------------------------------------------------------

_PLAIN_KINDS = frozenset("biufc")


class _NoFastPath(Exception):
    """The arguments hold something that no entry can describe."""


class _Static:
    """A static argument as part of a key: equal values of the same types."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = static_key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value[0])


def _describe(value: Any, leaves: list[Any]) -> object:
    kind = type(value)
    if kind is np.ndarray:
        plain = value.dtype.kind in _PLAIN_KINDS or value.dtype.name == "bfloat16"
        if not (value.dtype.isnative and plain):
            raise _NoFastPath
        flags = value.flags
        leaves.append(value if flags.c_contiguous and flags.aligned else value.copy())
        return (value.dtype, value.shape)
    if kind is float or kind is bool or kind is complex:
        leaves.append(value)
        return kind
    if kind is int:
        if not -(2**63) <= value < 2**63:
            raise _NoFastPath
        leaves.append(value)
        return kind
    if value is None:
        return None
    if isinstance(value, np.generic):
        if value.dtype.kind not in _PLAIN_KINDS or value.dtype.itemsize > 16:
            raise _NoFastPath
        leaves.append(value)
        return kind
    if kind is dict:
        try:
            keys = tuple(sorted(value))
        except TypeError:
            raise _NoFastPath from None
        return (dict, _Static(keys), tuple([_describe(value[key], leaves) for key in keys]))
    if kind is tuple or kind is list or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return (kind, tuple([_describe(item, leaves) for item in value]))
    try:
        parts = _parts_of(value)
    except Exception as error:  # the slow way meets it again
        raise _NoFastPath from error
    if parts is None:
        raise _NoFastPath
    return (kind, _Static(parts[1]), tuple([_describe(item, leaves) for item in parts[0]]))


def _describe_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], statics: Collection[int | str]
) -> tuple[object, list[Any]]:
    leaves: list[Any] = []
    parts: list[object] = [len(args), tuple(sorted(kwargs))]
    named = [(name, kwargs[name]) for name in sorted(kwargs)]
    for name, value in [*enumerate(args), *named]:
        parts.append(_Static(value) if name in statics else _describe(value, leaves))
    return tuple(parts), leaves


def _build_tree(tree: Any, results: Sequence[np.ndarray]) -> Any:
    if tree is None:
        return None
    if type(tree) is int:
        return results[tree]
    kind = tree[0]
    if kind == "const":
        return tree[1]
    children = [_build_tree(child, results) for child in tree[-1]]
    if kind == "list":
        return children
    if kind == "tuple":
        return tuple(children)
    if kind == "dict":
        return dict(zip(tree[1], children, strict=True))
    return tree[1](*children)


def _check_tree(tree: Any, count: int) -> None:
    if tree is None or (type(tree) is int and 0 <= tree < count):
        return
    shapes = {"const": 2, "list": 2, "tuple": 2, "dict": 3, "call": 3}
    if type(tree) is not tuple or not tree or shapes.get(tree[0]) != len(tree):
        raise ValueError(f"bad output tree {tree!r}")
    if tree[0] == "dict" and len(tree[1]) != len(tree[2]):
        raise ValueError("as many keys as children are needed")
    if tree[0] != "const":
        for child in tree[-1]:
            _check_tree(child, count)


class _Entry:
    """A program with what a call needs to run it."""

    def __init__(
        self,
        run: int | Callable[..., object],
        outputs: Results,
        tree: Any,
        constants: Sequence[np.ndarray],
        context: int | None,
        workspace_bytes: int,
        on_error: Callable[[int], Any] | None,
        donated: Mapping[int, int],
        keep_alive: object,
    ) -> None:
        self.outputs = [(np.dtype(dtype), tuple(shape)) for dtype, shape in outputs]
        self.tree = tree
        self.constants = list(constants)
        self.context = context
        self.workspace_bytes = workspace_bytes
        self.on_error = on_error
        self.donated = dict(donated)
        self.keep_alive = keep_alive
        _check_tree(tree, len(self.outputs))
        self.python = run if callable(run) else None
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self.function = None if callable(run) else kind(run)

    def _result(self, index: int, leaves: Sequence[Any]) -> np.ndarray:
        dtype, shape = self.outputs[index]
        donor = leaves[self.donated[index]] if index in self.donated else None
        if (
            isinstance(donor, np.ndarray)
            and donor.flags.writeable
            and (donor.dtype, donor.shape) == (dtype, shape)
            and not any(
                np.may_share_memory(donor, leaf)
                for k, leaf in enumerate(leaves)
                if k != self.donated[index] and isinstance(leaf, np.ndarray)
            )
        ):
            return donor
        return np.empty(shape, dtype)

    def call(self, leaves: list[Any]) -> Any:
        results = [self._result(k, leaves) for k in range(len(self.outputs))]
        if self.python is not None:
            self.python([*leaves, *self.constants], results)
        else:
            code = self._call_c([np.asarray(leaf) for leaf in leaves], results)
            if code and self.on_error is not None:
                return self.on_error(code)
            if code:
                raise RuntimeError(f"a compiled program failed with code {code}")
        return _build_tree(self.tree, results)

    def _call_c(self, leaves: list[np.ndarray], results: list[np.ndarray]) -> int:
        assert self.function is not None
        arrays = [*leaves, *self.constants]
        inputs = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays))
        outputs = (ctypes.c_void_p * (len(results) + 1))(*(a.ctypes.data for a in results))
        context = self.context
        workspace = np.empty(self.workspace_bytes + 64, np.uint8) if self.workspace_bytes else None
        if workspace is not None:
            context = (workspace.ctypes.data + 63) & ~63
        return int(self.function(ctypes.addressof(inputs), ctypes.addressof(outputs), context))


class PythonDispatcher:
    """The dispatcher without C: the same entries, looked up in a dict."""

    def __init__(self, slow_path: SlowPath | None = None) -> None:
        self.slow_path = slow_path
        self.hits = 0
        self.misses = 0
        self._entries: dict[frozenset[int | str], dict[object, _Entry]] = {}

    @property
    def entry_count(self) -> int:
        """The number of entries held."""
        return sum(len(entries) for entries in self._entries.values())

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind to an instance, so that a compiled method receives `self`."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the matching entry, or the slow path."""
        if getattr(_depth, "value", 0) == 0:
            answer = self.call_fast(args, kwargs)
            if answer is not NotImplemented:
                return answer
        self.misses += 1
        if self.slow_path is None:
            raise RuntimeError("this dispatcher has no slow path")
        return self.slow_path(args, kwargs)

    def add_entry(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: int | Callable[..., object],
        outputs: Results,
        output_tree: Any,
        *,
        constants: Sequence[np.ndarray] = (),
        statics: Collection[int | str] = (),
        context: int | None = None,
        workspace_bytes: int = 0,
        release_gil: bool = False,
        on_error: Callable[[int], Any] | None = None,
        donated: Mapping[int, int] | None = None,
        keep_alive: object = None,
    ) -> bool:
        """Register a program for calls like `(args, kwargs)`; see `Dispatcher.add_entry`."""
        del release_gil  # ctypes always lets other threads run
        entry = _Entry(
            run, outputs, output_tree, constants, context, workspace_bytes, on_error,
            donated or {}, keep_alive,
        )  # fmt: skip
        try:
            key, leaves = _describe_call(args, kwargs, statics)
        except _NoFastPath:
            return False
        if any(leaf >= len(leaves) for leaf in entry.donated.values()):
            raise ValueError("a donated leaf or result is not there")
        self._entries.setdefault(frozenset(statics), {})[key] = entry
        return True

    def call_fast(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Run the matching entry whatever the trace depth; NotImplemented without one."""
        for statics, entries in self._entries.items():
            try:
                key, leaves = _describe_call(args, kwargs, statics)
            except _NoFastPath:
                continue
            entry = entries.get(key)
            if entry is not None:
                self.hits += 1
                return entry.call(leaves)
        return NotImplemented

    def clear_entries(self) -> None:
        """Forget every entry."""
        self._entries.clear()
