"""The table of samples for array operations: shapes, reductions, indexing, contractions, sorting.

See `op_samples.Sample`.  `RESULTS` of several arrays are compared one by one.  `SMOOTH` are the
samples with a derivative; integer arguments and shape-only functions are in the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import stax.numpy as snp
from stax.numpy.at import at
from stax.primitives import cumulative as cu
from stax.primitives import dynamic_slices as ds
from stax.primitives import indexing as ix
from stax.primitives import reductions as rd
from stax.primitives import shapes as sh
from stax.primitives import sorting as so
from stax.primitives import views as vw
from tests.op_samples import Sample, integers, signed, uniform

X = uniform(-2, 2)
F8 = ("f8",)


def spaced(*shapes: tuple[int, ...]) -> Callable[..., tuple[Any, ...]]:
    """Distinct values, far enough apart for max, sort and median to be smooth."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> tuple[Any, ...]:
        out = []
        for shape in shapes or ((3, 4),):
            n = int(np.prod(shape))
            out.append((rng.permutation(n).reshape(shape) * 0.37 - n / 6).astype(dtype))
        return tuple(out)

    return make


def one(name: str, fn: Callable[..., Any], make: Any = X, **options: Any) -> Sample:
    """A sample differentiable in its first argument."""
    options.setdefault("diff", (0,))
    options.setdefault("dtypes", F8)
    return Sample(name, fn, make, **options)


def two(name: str, fn: Callable[..., Any], make: Any, **options: Any) -> Sample:
    """A sample differentiable in both arguments."""
    return one(name, fn, make, diff=(0, 1), **options)


ROWS = np.array([[2, 0], [-1, 1]])
MASK = np.array([[True, False, True, True], [False, False, True, True], [True, False, False, True]])

SHAPES = [
    one("reshape", lambda x: snp.reshape(x, (2, -1))),
    one("reshape_F", lambda x: snp.reshape(x, (2, 6), order="F")),
    one("ravel", snp.ravel),
    one("transpose", snp.transpose),
    one("transpose_axes", lambda x: snp.transpose(x, (2, 0, 1)), uniform(-1, 1, (2, 3, 4))),
    one("moveaxis", lambda x: snp.moveaxis(x, 0, -1), uniform(-1, 1, (2, 3, 4))),
    one("swapaxes", lambda x: snp.swapaxes(x, 0, 2), uniform(-1, 1, (2, 3, 4))),
    one("rollaxis", lambda x: snp.rollaxis(x, 2), uniform(-1, 1, (2, 3, 4))),
    one("expand_dims", lambda x: snp.expand_dims(x, (0, 2))),
    one("squeeze", snp.squeeze, uniform(-1, 1, (1, 3, 1))),
    one("broadcast_to", lambda x: snp.broadcast_to(x, (2, 3, 4)), uniform(-1, 1, (3, 1))),
    one("broadcast_inner", lambda x: vw.broadcast(x, (3, 5, 4), (0, 2))),
    one("flip", lambda x: snp.flip(x, 1)),
    one("rot90", snp.rot90),
    one("rot90_3", lambda x: snp.rot90(x, 3)),
    one("roll", lambda x: snp.roll(x, 2, 1)),
    one("roll_flat", lambda x: snp.roll(x, 5)),
    one("roll_both", lambda x: snp.roll(x, (1, -1), (0, 1))),
    one("tile", lambda x: snp.tile(x, (2, 1, 3))),
    one("repeat", lambda x: snp.repeat(x, 2, 1)),
    one("repeat_counts", lambda x: snp.repeat(x, [1, 0, 3], 0)),
    one("resize", lambda x: snp.resize(x, (5, 3))),
    one("pad_constant", lambda x: snp.pad(x, ((1, 2), (0, 1)), constant_values=3.0)),
    one("pad_corners", lambda x: snp.pad(x, 1, constant_values=((1.0, 2.0), (3.0, 4.0)))),
    one("pad_edge", lambda x: snp.pad(x, 2, mode="edge")),
    one("pad_reflect", lambda x: snp.pad(x, ((2, 1), (3, 3)), mode="reflect")),
    one("pad_symmetric", lambda x: snp.pad(x, ((4, 1), (5, 3)), mode="symmetric")),
    one("pad_wrap", lambda x: snp.pad(x, ((4, 1), (5, 3)), mode="wrap")),
    one("pad_mean", lambda x: snp.pad(x, 1, mode="mean")),
    one("pad_ramp", lambda x: snp.pad(x, 3, mode="linear_ramp", end_values=2.0)),
    one("diagonal", lambda x: snp.diagonal(x, 1)),
    one("diagonal_3d", lambda x: snp.diagonal(x, -1, 2, 0), uniform(-1, 1, (3, 2, 4))),
    one("diag_vector", lambda x: snp.diag(x, -1), uniform(-1, 1, (4,))),
    one("tril", lambda x: snp.tril(x, 1)),
    one("triu", lambda x: snp.triu(x, -1)),
    one("vander", lambda x: snp.vander(x, 4), uniform(-1, 1, (3,))),
    one("atleast_3d", snp.atleast_3d),
    one("unstack", lambda x: snp.unstack(x, axis=1)[2]),
    one("split", lambda x: snp.split(x, 2, axis=1)[1]),
    one("array_split", lambda x: snp.array_split(x, 3, axis=1)[0]),
    one("strided_slice", lambda x: sh.strided_slice(x, (0, 1), (3, 4), (2, 2))),
    one("interior_pad", lambda x: sh.pad(x, np.zeros((), x.dtype)[()], (1, -1), (0, 2), (2, 1))),
    one("diff", lambda x: snp.diff(x, 2)),
    one("diff_ends", lambda x: snp.diff(x, prepend=0.5, append=1.0)),
    one("ediff", lambda x: snp.diff(x, axis=0)),
    two("concatenate", lambda x, y: snp.concatenate([x, y], 1), uniform(-1, 1, (3, 2), (3, 4))),
    two("stack", lambda x, y: snp.stack([x, y], -1), uniform(-1, 1, (3, 2), (3, 2))),
    two("hstack", lambda x, y: snp.hstack([x, y]), uniform(-1, 1, (3,), (2,))),
    two("vstack", lambda x, y: snp.vstack([x, y]), uniform(-1, 1, (3,), (2, 3))),
    two("column_stack", lambda x, y: snp.column_stack([x, y]), uniform(-1, 1, (3,), (3, 2))),
    two("append", snp.append, uniform(-1, 1, (3,), (2, 3))),
    two("block", lambda x, y: snp.block([[x, y], [y, x]]), uniform(-1, 1, (3, 2), (3, 2))),
    two("meshgrid", lambda x, y: snp.meshgrid(x, y)[1], uniform(-1, 1, (3,), (2,))),
    two("linspace", lambda x, y: snp.linspace(x, y, 5), uniform(-1, 1, (3,), (3,))),
    two("insert", lambda x, y: snp.insert(x, 1, y, axis=1), uniform(-1, 1, (3, 4), (3,))),
    two("insert_many", lambda x, y: snp.insert(x, [3, 0], y), uniform(-1, 1, (4,), (2,))),
    one("delete", lambda x: snp.delete(x, [0, 2], axis=1)),
]

REDUCTIONS = [
    one("sum", snp.sum, dtypes=("f4", "f8", "c16", "f2")),
    one("sum_axis", lambda x: snp.sum(x, axis=-1, keepdims=True)),
    one("sum_axes", lambda x: snp.sum(x, axis=(0, 2)), uniform(-1, 1, (2, 3, 4))),
    one("sum_where", lambda x: snp.sum(x, axis=1, where=MASK, initial=2.0)),
    one("prod", snp.prod, signed(0.5, 1.5)),
    one("prod_axis", lambda x: snp.prod(x, axis=0), signed(0.5, 1.5)),
    one("max", snp.max, spaced()),
    one("max_axis", lambda x: snp.max(x, axis=1), spaced()),
    one("min_axes", lambda x: snp.min(x, axis=(0, 2), keepdims=True), spaced((2, 3, 4))),
    one("max_where", lambda x: snp.max(x, axis=1, where=MASK, initial=-9.0), spaced()),
    one("ptp", lambda x: snp.ptp(x, axis=1), spaced()),
    one("mean", snp.mean, dtypes=("f4", "f8", "c16")),
    one("mean_where", lambda x: snp.mean(x, axis=1, where=MASK)),
    one("var", lambda x: snp.var(x, axis=1), dtypes=("f4", "f8")),
    one("var_ddof", lambda x: snp.var(x, ddof=1)),
    one("var_where", lambda x: snp.var(x, axis=1, where=MASK)),
    one("std", lambda x: snp.std(x, axis=0)),
    one("median", lambda x: snp.median(x, axis=1), spaced()),
    one("quantile", lambda x: snp.quantile(x, [0.2, 0.9], axis=0), spaced()),
    one("percentile", lambda x: snp.percentile(x, 35.0), spaced()),
    two("average", lambda x, w: snp.average(x, 1, w), uniform(0.5, 2, (3, 4), (3, 4))),
    one("cov", snp.cov),
    one("corrcoef", snp.corrcoef),
    one("trapezoid", lambda x: snp.trapezoid(x, dx=0.5, axis=0)),
    one("cumsum", lambda x: snp.cumsum(x, axis=1), dtypes=("f4", "f8")),
    one("cumsum_flat", snp.cumsum),
    one("cumsum_reverse", lambda x: cu.cumsum(x, 0, True)),
    one("cumprod", lambda x: snp.cumprod(x, axis=1)),
    one("cumprod_reverse", lambda x: cu.cumprod(x, 1, True)),
    one("cummax", lambda x: cu.cummax(x, 1), spaced()),
    one("cummin_reverse", lambda x: cu.cummin(x, 0, True), spaced()),
    one("cumlogsumexp", lambda x: cu.cumlogsumexp(x, 1)),
    one("cumlogsumexp_reverse", lambda x: cu.cumlogsumexp(x, 1, True)),
    one("cumulative_sum", lambda x: snp.cumulative_sum(x, axis=1, include_initial=True)),
    two("recurrence", lambda a, b: cu.linear_recurrence(a, b, 1), uniform(-1, 1, (2, 4), (2, 4))),
    two(
        "recurrence_reverse",
        lambda a, b: cu.linear_recurrence(a, b, 0, True),
        uniform(-1, 1, (3, 2), (3, 2)),
    ),
    one("nansum", lambda x: snp.nansum(snp.where(MASK, x, np.nan), axis=1)),
    one("nanmean", lambda x: snp.nanmean(snp.where(MASK, x, np.nan), axis=1)),
    one("nanvar", lambda x: snp.nanvar(snp.where(MASK, x, np.nan), axis=1)),
    one("nanmax", lambda x: snp.nanmax(snp.where(MASK, x, np.nan), axis=1), spaced()),
    one("nanmedian", lambda x: snp.nanmedian(snp.where(MASK, x, np.nan), axis=1), spaced()),
]

INDEXING = [
    one("slices", lambda x: x[1:, ::-2]),
    one("newaxis", lambda x: x[None, 1, :, None]),
    one("ellipsis", lambda x: x[..., 1], uniform(-1, 1, (2, 3, 4))),
    one("empty_slice", lambda x: x[2:1]),
    one("integers", lambda x: x[[2, 0, 2], [1, -1, 1]]),
    one("rows", lambda x: x[ROWS]),
    one("split_arrays", lambda x: x[[0, 1], :, [1, 3]], uniform(-1, 1, (2, 3, 4))),
    one("array_and_slice", lambda x: x[:, [2, 0], ::-1], uniform(-1, 1, (2, 3, 4))),
    one("array_and_int", lambda x: x[1, :, [0, 3, 3]], uniform(-1, 1, (2, 3, 4))),
    one("array_and_newaxis", lambda x: x[None, :, [1, 0]]),
    one("mask", lambda x: x[MASK]),
    one("mask_axis", lambda x: x[:, np.array([True, False, True, True])]),
    one("take", lambda x: snp.take(x, ROWS, axis=0)),
    one("take_wrap", lambda x: snp.take(x, [5, -7], axis=1, mode="wrap")),
    one("take_clip", lambda x: snp.take(x, [5, -7, 2], axis=1, mode="clip")),
    one("take_along", lambda x: snp.take_along_axis(x, np.array([[3, 0], [1, 1], [2, 0]]), 1)),
    two("at_set", lambda x, v: at(x)[1, ::2].set(v), uniform(-1, 1, (3, 4), (2,))),
    two("at_set_repeated", lambda x, v: at(x)[[0, 0, 2]].set(v), uniform(-1, 1, (3, 4), (3, 1))),
    two("at_add", lambda x, v: at(x)[[0, 0, -1]].add(v), uniform(-1, 1, (3, 4), (3, 4))),
    two("at_mul", lambda x, v: at(x)[[0, 0, 2], 1].multiply(v), uniform(0.5, 2, (3, 4), (3,))),
    two("at_div", lambda x, v: at(x)[1:].divide(v), uniform(0.5, 2, (3, 4), (2, 4))),
    two("at_max", lambda x, v: at(x)[[0, 0, 2], 1].max(v), spaced((3, 4), (3,))),
    two("at_min", lambda x, v: at(x)[:, 1].min(v), uniform(-1, 1, (3, 4), (3,))),
    two("at_mask", lambda x, v: at(x)[MASK].set(v), uniform(-1, 1, (3, 4), ())),
    two("at_drop", lambda x, v: at(x)[[7, 1, -9]].set(v, mode="drop"), uniform(-1, 1, (3,), (3,))),
    one("at_get_fill", lambda x: at(x)[[7, 1]].get(mode="fill", fill_value=2.0)),
    one("at_power", lambda x: at(x)[0].power(3)),
    two("at_strided", lambda x, v: at(x)[::2, ::-3].set(v), uniform(-1, 1, (3, 4), (2, 2))),
    one("dynamic_slice", lambda x: ds.dynamic_slice(x, (np.int64(2), np.int64(1)), (2, 2))),
    two(
        "dynamic_update",
        lambda x, u: ds.dynamic_update_slice(x, u, (np.int64(2), np.int64(1))),
        uniform(-1, 1, (3, 4), (2, 2)),
    ),
    one("where", lambda x: snp.where(MASK, x, x * x)),
    one("select", lambda x: snp.select([MASK, x > 0], [x, 2 * x], x * x), signed(0.3, 2)),
    one("clip", lambda x: snp.clip(x, -1, 1), spaced()),
    one("clip_low", lambda x: snp.clip(x, 0.1, None), spaced()),
    one("sort", snp.sort, spaced()),
    one("sort_axis0", lambda x: snp.sort(x, axis=0, descending=True) if _traced(x) else _down(x)),
    one("sort_by_key", lambda x: so.sort((np.arange(12.0).reshape(3, 4)[:, ::-1], x), 1)[1]),
    one(
        "interp_lines",
        lambda x: snp.interp(x, [-0.5, 0.0, 0.3], [1.0, 3.0, 0.0], "extrapolate", "extrapolate"),
        signed(0.35, 0.9),
    ),
    one("interp", lambda x: snp.interp(x, [-1.0, 0.0, 2.0], [1.0, 3.0, 0.0]), signed(0.2, 0.9)),
    two(
        "interp_values",
        lambda x, f: snp.interp(x, [-1.0, 0.0, 2.0], f),
        lambda rng, d: (rng.uniform(0.1, 0.9, (4,)).astype(d), rng.uniform(0, 1, 3).astype(d)),
    ),
]


def _traced(x: Any) -> bool:
    return not isinstance(x, np.ndarray | np.generic)


def _down(x: Any) -> Any:
    return np.flip(np.sort(x, axis=0), 0)


def _mm(*shapes: tuple[int, ...]) -> Any:
    return uniform(-1, 1, *shapes)


PRODUCTS = [
    two("matmul", lambda a, b: a @ b, _mm((3, 4), (4, 2)), dtypes=("f4", "f8", "c16")),
    two("matmul_vv", lambda a, b: a @ b, _mm((4,), (4,))),
    two("matmul_vm", lambda a, b: a @ b, _mm((4,), (4, 3))),
    two("matmul_mv", lambda a, b: a @ b, _mm((3, 4), (4,))),
    two("matmul_batch", lambda a, b: a @ b, _mm((2, 1, 3, 4), (5, 4, 2))),
    two("matmul_vb", lambda a, b: a @ b, _mm((4,), (2, 4, 3))),
    two("matmul_bv", lambda a, b: a @ b, _mm((2, 3, 4), (4,))),
    two("matmul_mb", lambda a, b: a @ b, _mm((3, 4), (2, 4, 5))),
    two("matmul_bm", lambda a, b: a @ b, _mm((2, 3, 4), (4, 5))),
    two("dot_3d", snp.dot, _mm((2, 3, 4), (5, 4, 2))),
    two("inner", snp.inner, _mm((3, 4), (2, 4))),
    two("outer", snp.outer, _mm((3,), (4,))),
    two("vdot", snp.vdot, _mm((3, 4), (3, 4))),
    two("vecdot", lambda a, b: snp.vecdot(a, b, axis=0), _mm((3, 4), (3, 1))),
    two("matvec", snp.matvec, _mm((2, 3, 4), (2, 4))),
    two("vecmat", snp.vecmat, _mm((2, 3), (3, 4))),
    two("tensordot", lambda a, b: snp.tensordot(a, b, ([0, 2], [1, 0])), _mm((2, 3, 4), (4, 2, 5))),
    two("kron", snp.kron, _mm((2, 3), (2, 2))),
    two("cross", snp.cross, _mm((2, 3), (2, 3))),
    two("cross_2d", lambda a, b: snp.cross(a, b), _mm((4, 3), (3,))),
    one("trace", lambda x: snp.trace(x, 1)),
    one("einsum_trace", lambda x: snp.einsum("ii->i", x), _mm((3, 3))),
    one("einsum_sum", lambda x: snp.einsum("ij->j", x)),
    two("einsum_mm", lambda a, b: snp.einsum("bij,bjk->bik", a, b), _mm((2, 3, 4), (2, 4, 2))),
    two("einsum_ell", lambda a, b: snp.einsum("...ij,jk", a, b), _mm((2, 3, 4), (4, 2))),
    two("einsum_outer", lambda a, b: snp.einsum("i,jk->kij", a, b), _mm((2,), (4, 3))),
    two("einsum_repeat", lambda a, b: snp.einsum("iij,ik->jk", a, b), _mm((3, 3, 2), (3, 4))),
    one("einsum_three", lambda a: snp.einsum("ij,kj,kl->il", a, a, a)),
    two("einsum_lists", lambda a, b: snp.einsum(a, [0, 1], b, [1, 2], [2, 0]), _mm((3, 4), (4, 2))),
]

SMOOTH = [*SHAPES, *REDUCTIONS, *INDEXING, *PRODUCTS]


def flat(name: str, fn: Callable[..., Any], make: Any, **options: Any) -> Sample:
    """A sample without a derivative."""
    return Sample(name, fn, make, **options)


INTS = ("i8", "u1", "i4")
FLAT = [
    flat("sum_int", snp.sum, integers(0, 200), dtypes=INTS),
    flat("prod_int", lambda x: snp.prod(x, axis=1), integers(0, 9), dtypes=INTS),
    flat("cumsum_int", lambda x: snp.cumsum(x, axis=0), integers(0, 200), dtypes=INTS),
    flat("mean_int", snp.mean, integers(0, 200), dtypes=INTS),
    flat("var_int", snp.var, integers(0, 200), dtypes=INTS),
    flat("max_int", lambda x: snp.max(x, axis=1), integers(0, 200), dtypes=INTS),
    flat("matmul_int", lambda x: x @ x.T, integers(0, 9), dtypes=INTS),
    flat("any", lambda x: snp.any(x, axis=1), integers(0, 2), dtypes=("i8", "?")),
    flat("all", lambda x: snp.all(x, axis=0, keepdims=True), integers(0, 2), dtypes=("i8", "?")),
    flat("argmax", snp.argmax, integers(0, 5), dtypes=("i8", "f8")),
    flat("argmin", lambda x: snp.argmin(x, axis=1, keepdims=True), integers(0, 5)),
    flat("count_nonzero", lambda x: snp.count_nonzero(x, axis=1), integers(0, 2), dtypes=INTS),
    flat("argsort", lambda x: snp.argsort(x, axis=0, stable=True), integers(0, 4), dtypes=("i8",)),
    flat("sort_int", snp.sort, integers(0, 9), dtypes=INTS),
    flat("searchsorted", lambda v: snp.searchsorted([0.0, 1.0, 1.0, 3.0], v), integers(0, 4)),
    flat("digitize", lambda v: snp.digitize(v, [3.0, 1.0, 0.0]), integers(0, 4)),
    flat(
        "choose",
        lambda i: snp.choose(i, [[1, 2, 3, 0], [4, 5, 6, 7]]),
        integers(0, 2),
        dtypes=("i8",),
    ),
    flat("take_index", lambda i: snp.take([1.5, 2.5, 3.5], i), integers(-3, 3), dtypes=("i8",)),
    flat("tri", lambda x: snp.tri(3, 4, 1) + x, integers(0, 4)),
    flat("eye", lambda x: snp.eye(3, 4, -1) * x, integers(0, 4)),
    flat("arange", lambda x: snp.arange(2, 14, 3) + x, integers(0, 4), dtypes=("i4", "f4")),
    flat("indices", lambda x: snp.indices((3, 4)) + x, integers(0, 4), dtypes=("i8",)),
    flat("full_like", lambda x: snp.full_like(x, 7) + snp.zeros_like(x), integers(0, 4)),
    flat("ptp_int", lambda x: snp.ptp(x, axis=1), integers(0, 100), dtypes=("i8",)),
    flat("argmax_row", lambda x: rd.argmax(x, 1), integers(0, 5)),
    flat("gather_fill", lambda x: ix.gather(x, [np.array([5, 0])], [1], "fill"), integers(0, 5)),
]
SAMPLES = [*SMOOTH, *FLAT]
