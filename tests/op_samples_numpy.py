"""Samples of the rarer NumPy functions: signals, polynomials, sets, grids, mapped functions."""

from __future__ import annotations

import numpy as np

import stax.numpy as snp
from tests.op_samples import Sample, integers, signed, uniform
from tests.op_samples_arrays import flat, one, spaced, two

V = uniform(-2, 2, (6,))
EDGES = np.array([0.0, 0.5, 2.0, 4.0])
UNEVEN = np.array([0.0, 0.5, 1.5, 1.75])


def _soft(v):
    return v * v / (1.0 + v * v).sum()


SMOOTH: list[Sample] = [
    two("convolve", snp.convolve, uniform(-1, 1, (6,), (3,))),
    two("convolve_same", lambda a, v: snp.convolve(a, v, "same"), uniform(-1, 1, (3,), (6,))),
    two("convolve_valid", lambda a, v: snp.convolve(a, v, "valid"), uniform(-1, 1, (6,), (2,))),
    two("correlate", snp.correlate, uniform(-1, 1, (6,), (3,))),
    two("correlate_full", lambda a, v: snp.correlate(a, v, "full"), uniform(-1, 1, (3,), (5,))),
    two("correlate_short", lambda a, v: snp.correlate(a, v, "same"), uniform(-1, 1, (3,), (6,))),
    one("ediff1d", lambda x: snp.ediff1d(x, to_end=[1.0, 2.0], to_begin=0.5)),
    one("gradient", lambda x: snp.gradient(x)[1]),
    one("gradient_edge", lambda x: snp.gradient(x, 0.5, axis=1, edge_order=2)),
    one("gradient_uneven", lambda x: snp.gradient(x, UNEVEN, axis=1)),
    one("gradient_uneven2", lambda x: snp.gradient(x, UNEVEN, axis=1, edge_order=2)),
    one("unwrap", lambda x: snp.unwrap(x * 4.0, axis=0)),
    one("i0", snp.i0, signed(0.5, 2)),
    one(
        "histogram_weights",
        lambda w: snp.histogram([0.1, 0.6, 4.0, 9.0, 0.2, 1.0], EDGES, weights=w)[0],
        V,
    ),
    two("polyval", snp.polyval, uniform(-1, 1, (4,), (2, 3))),
    two("polyadd", snp.polyadd, uniform(-1, 1, (4,), (2,))),
    two("polysub", snp.polysub, uniform(-1, 1, (2,), (3,))),
    two("polymul", snp.polymul, uniform(-1, 1, (4,), (2,))),
    two("polydiv", lambda u, v: snp.polydiv(u, v)[0], uniform(0.5, 1, (5,), (3,))),
    one("polyder", lambda p: snp.polyder(p, 2), V),
    one("polyint", lambda p: snp.polyint(p, 2, [1.0, 2.0]), V),
    two("polyfit", lambda x, y: snp.polyfit(x, y, 2), spaced((7,), (7,)), tol=10.0),
    two(
        "polyfit_w",
        lambda y, w: snp.polyfit(np.arange(6.0), y, 1, w=w),
        uniform(0.5, 1, (6, 2), (6,)),
    ),
    one("poly", snp.poly, uniform(-1, 1, (3,))),
    one("along_axis", lambda x: snp.apply_along_axis(_soft, 0, x)),
    one("over_axes", lambda x: snp.apply_over_axes(snp.sum, x, (0, 2)), uniform(-1, 1, (2, 3, 4))),
    two("vectorize", snp.vectorize(lambda a, b: a * b + a), uniform(-1, 1, (3, 1), (4,))),
    two(
        "vectorize_signature",
        snp.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()"),
        uniform(-1, 1, (2, 4), (4,)),
    ),
    one("r_", lambda x: snp.r_[x[0], 1:3, 5.0]),
    one("c_", lambda x: snp.c_[x[:, 0], x]),
    one("fromfunction", lambda x: snp.fromfunction(lambda i, j: i * x[0, 0] + j, (2, 3))),
    one("tril_indices", lambda x: x[snp.tril_indices(3, 1)]),
    one("ix_", lambda x: x[snp.ix_([2, 0], [1, 3])]),
    one("nanpercentile", lambda x: snp.nanpercentile(x, 30.0, axis=1), spaced()),
]
FLAT: list[Sample] = [
    flat("histogram", lambda x: snp.histogram(x, EDGES)[0], uniform(-1, 5)),
    flat(
        "histogram_density",
        lambda x: snp.histogram(x, 4, (0.0, 4.0), density=True)[0],
        uniform(0, 5),
    ),
    flat("histogram_auto", lambda x: snp.histogram(x, 5)[0], uniform(-1, 5), dtypes=("f8",)),
    flat("isin", lambda x: snp.isin(x, [1, 3]), integers(0, 5), dtypes=("i8",)),
    flat("isin_not", lambda x: snp.isin(x, [1, 3], invert=True), integers(0, 5), dtypes=("i8",)),
    flat("packbits", lambda x: snp.packbits(x, axis=0), integers(0, 2), dtypes=("u1",)),
    flat("unpackbits", lambda x: snp.unpackbits(x, axis=1), integers(0, 255), dtypes=("u1",)),
    flat(
        "unravel",
        lambda x: snp.unravel_index(x, (3, 4, 5))[1],
        integers(0, 60, (3, 4)),
        dtypes=("i8",),
    ),
    flat(
        "ravel_multi",
        lambda x: snp.ravel_multi_index((x, x), (5, 7)),
        integers(0, 5),
        dtypes=("i8",),
    ),
    flat("bincount", lambda x: snp.bincount(x, minlength=6), integers(0, 6, (9,)), dtypes=("i8",)),
    flat("sort_complex", snp.sort_complex, uniform(-1, 1, (5,)), dtypes=("c16",)),
    flat("nanargmax", lambda x: snp.nanargmax(snp.where(x > 2, np.nan, x), axis=1), spaced()),
]
SAMPLES = [*SMOOTH, *FLAT]
