"""A device that is this process: memory with guard pages, kernels run by Triton's interpreter.

Input: what the back end asks of a device.  Output: the same effects.  Every block of memory ends at
a page that may not be touched, so that a store beyond its end stops the process instead of passing
unnoticed.  Reductions and scans of the interpreter are replaced by ones that work on whole arrays.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from types import SimpleNamespace

import numpy as np
import scipy.special
import triton.language as tl
from triton.runtime import interpreter

from stax.backends.triton.build import loaded_function, module_text
from stax.loops import contracted

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22

NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def _tensor(data, dtype):
    """An interpreter tensor of a NumPy array."""
    data = np.asarray(data)
    kind = tl.block_type(dtype, list(data.shape)) if data.shape else dtype
    return tl.core.tensor(interpreter.TensorHandle(data if data.shape else data[None], dtype), kind)


def _shimmed(function):
    """A NumPy function as one of Triton's device library."""

    def call(*args):
        data = [a.handle.data for a in args]
        with np.errstate(all="ignore"):
            out = np.asarray(function(*data)).astype(data[0].dtype)
        kind = tl.block_type(args[0].dtype, list(out.shape))
        if not any(a.type.is_block() for a in args):
            kind = args[0].dtype
        return tl.core.tensor(interpreter.TensorHandle(out, args[0].dtype), kind)

    return call


LIBDEVICE = SimpleNamespace(
    **{
        name: _shimmed(getattr(np, numpy_name))
        for name, numpy_name in {
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
            "atan2": "arctan2",
            "pow": "power",
            "copysign": "copysign",
            "nextafter": "nextafter",
            "hypot": "hypot",
            "fmod": "fmod",
            **{
                n: n
                for n in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh "
                "trunc".split()
            },
            "nearbyint": "rint",
        }.items()
    },
    erf=_shimmed(scipy.special.erf),
    erfc=_shimmed(scipy.special.erfc),
    erfinv=_shimmed(scipy.special.erfinv),
    lgamma=_shimmed(scipy.special.gammaln),
    fma=_shimmed(contracted.fma),  # rounded once, as the device's; a long double rounds twice
)


def _parts(values, axis):
    return [np.moveaxis(v.handle.data, axis, 0) for v in values]


def _combined(merge, left, right, dtypes):
    """One merge of whole arrays."""
    tensors = [_tensor(d, t) for d, t in zip((*left, *right), (*dtypes, *dtypes), strict=True)]
    out = merge.fn(*tensors)
    out = out if isinstance(out, tuple) else (out,)
    return [
        np.broadcast_to(o.handle.data, a.shape).astype(a.dtype)
        for o, a in zip(out, left, strict=True)
    ]


def _reduce(self, values):
    dtypes = [v.dtype for v in values]
    parts = _parts(values, self.axis)
    while parts[0].shape[0] > 1:
        n = parts[0].shape[0] // 2 * 2
        rest = [p[n:] for p in parts]
        parts = _combined(self.combine_fn, [p[0:n:2] for p in parts], [p[1:n:2] for p in parts],
                          dtypes)  # fmt: skip
        parts = [np.concatenate([p, r]) for p, r in zip(parts, rest, strict=True)]
    out = [p[0] for p in parts]
    if self.keep_dims:
        out = [np.expand_dims(p, self.axis) for p in out]
    return [self.to_tensor(p if p.shape else p[()], t) for p, t in zip(out, dtypes, strict=True)]


def _scan(self, values):
    dtypes = [v.dtype for v in values]
    parts = [p.copy() for p in _parts(values, self.axis)]
    for k in range(1, parts[0].shape[0]):
        left = [p[k - 1 : k] for p in parts]
        merged = _combined(self.combine_fn, left, [p[k : k + 1] for p in parts], dtypes)
        for p, m in zip(parts, merged, strict=True):
            p[k] = m[0]
    out = [np.moveaxis(p, 0, self.axis) for p in parts]
    return [self.to_tensor(p, t) for p, t in zip(out, dtypes, strict=True)]


def _splat(self, kind, value):
    """A scalar as a block; of a comparison the interpreter remembers the operands' type."""
    data = np.full(kind.shape, value.data[0], value.data.dtype)
    return interpreter.TensorHandle(data, value.dtype.scalar)


def _dot(self, a, b, d, input_precision, max_num_imprecise_acc):
    """A product; bfloat16 lies in the interpreter's memory as 16-bit integers."""
    left, right = (
        (x.data.astype(np.uint32) << 16).view(np.float32) if x.dtype == tl.bfloat16 else x.data
        for x in (a, b)
    )
    PRECISIONS.add(str(input_precision))
    total = np.matmul(left, right, dtype=d.data.dtype) + d.data
    return interpreter.TensorHandle(total, d.dtype.scalar)


PRECISIONS = set()  # what products asked for
interpreter.InterpreterBuilder.create_dot = _dot
interpreter.InterpreterBuilder.create_splat = _splat
interpreter.ReduceOps.generic_reduce = _reduce
interpreter.ScanOps.generic_scan = _scan


class _Pointer:
    """An address with the type of what it points to, as the interpreter wants it."""

    def __init__(self, address, kind):
        bits = kind[1:]
        self.dtype = NAMES.get(bits, {"i": "int", "u": "uint"}.get(bits[0], "") + bits[1:])
        self._address = address

    def data_ptr(self):
        return self._address


class _Executor(interpreter.GridExecutor):
    """Runs a kernel on addresses; there is nothing to copy."""

    def _init_args_hst(self, args, kwargs):
        return args, kwargs

    def _restore_args_dev(self, *ignored):
        return None


class InterpretedFunction:
    """A kernel."""

    def __init__(self, machine, name, source):
        self.machine = machine
        self.types = list(source.types.values())
        self.function = loaded_function(name, module_text(name, source))
        self.function.fn.__globals__["libdevice"] = LIBDEVICE

    def launch(self, grid, arguments):
        assert len(arguments) == len(self.types)
        given = [
            a if t == "i32" else _Pointer(a, t) for a, t in zip(arguments, self.types, strict=True)
        ]
        self.machine.launches += 1
        run = _Executor(self.function.rewrite(), self.function.arg_names, (grid,))
        with np.errstate(all="ignore"):
            run(*given)


class InterpretedMachine:
    """This process as a device."""

    compiles = False
    name = "cuda:sm_90"
    index = 0

    def __init__(self):
        self.live = {}
        self.launches = 0
        self._functions = {}

    def allocate(self, nbytes, label):
        size = max(nbytes, 1)
        size += -size % 16
        pages = -(-size // PAGE)
        base = _libc.mmap(None, (pages + 1) * PAGE, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        assert base not in (None, ctypes.c_void_p(-1).value)
        ctypes.memset(base, 0xA5, pages * PAGE)
        _libc.mprotect(base + pages * PAGE, PAGE, 0)
        address = base + pages * PAGE - size
        self.live[address] = (base, (pages + 1) * PAGE, label)
        return address

    def free(self, address):
        base, size, _ = self.live.pop(address)
        _libc.munmap(base, size)

    def upload(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def host_array(self, shape, dtype):
        return np.empty(shape, dtype)

    def download(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target, source, nbytes):
        ctypes.memmove(target, source, nbytes)

    def clear(self, address, nbytes):
        ctypes.memset(address, 0, nbytes)

    def function(self, name, source):
        key = f"{name} {source.key}"
        if key not in self._functions:
            self._functions[key] = InterpretedFunction(self, name, source)
        return self._functions[key]

    def synchronize(self):
        return None

    def captured(self, work):
        return None

    def replay(self, graph):
        raise AssertionError("nothing was captured")


def bytes_of(shape, dtype):
    """Bytes of an array."""
    return math.prod(shape) * np.dtype(dtype).itemsize
