"""The dtype of a result, for every dtype of the operand, against NumPy; nothing is computed."""

from __future__ import annotations

import numpy as np
import pytest

import stax

DTYPES = "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split()
CALLS = (
    """
np.sum(x)|np.prod(x)|np.mean(x)|np.var(x)|np.std(x)|np.max(x)|np.cumsum(x)|np.cumprod(x)|np.argmax(x)
np.median(x)|np.average(x)|np.nansum(x)|np.nanmean(x)|np.trace(x)|np.any(x)|np.count_nonzero(x)
np.diff(x)|np.sort(x)|np.round(x)|np.round(x, 1)|np.clip(x, 0, 2)|np.where(x > 0, x, 1)|np.dot(x, x)
np.vdot(x, x)|np.inner(x, x)|np.outer(x, x)|np.kron(x, x)|np.einsum('ij,jk', x, x)|np.cross(x, x)
np.einsum('i,j->ij', x[0], x[1])|np.trapezoid(x)|np.gradient(x)[0]|np.percentile(x, 30)
np.quantile(x, 0.3)|np.linalg.norm(x)|np.linalg.inv(x)|np.linalg.det(x)|np.linalg.solve(x, x)
np.linalg.svd(x)[1]|np.linalg.eigvalsh(x)|np.linalg.eigh(x)[1]|np.linalg.cholesky(x)
np.linalg.qr(x)[0]|np.linalg.slogdet(x)[1]|np.linalg.pinv(x)|np.linalg.lstsq(x, x)[0]
np.linalg.matrix_power(x, 2)|np.linalg.matrix_rank(x)|np.linalg.vector_norm(x)
np.fft.fft(x)|np.fft.rfft(x)|np.fft.irfft(x)|np.fft.ifft2(x)|np.fft.fftn(x)|np.polyval(x[0], x)
np.interp(x, x[0], x[1])|np.cov(x)|np.corrcoef(x)|np.convolve(x[0], x[1])|np.histogram(x)[1]
np.digitize(x, x[0])|np.searchsorted(x[0], x)|np.vander(x[0])|np.full_like(x, 3)|np.tril(x)
np.nan_to_num(x)|np.sinc(x)|np.i0(x)|np.angle(x)|np.angle(x, deg=True)|np.real(x)|np.imag(x)
np.matmul(x, x)|np.tensordot(x, x)|np.unwrap(x)|np.ptp(x)|np.heaviside(x, x)
np.nanvar(x)|np.nanmedian(x)|np.fix(x)|np.roll(x, 1)|np.bincount(x[0])|np.trim_zeros(x[0])
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
# What NumPy orders by the real part first, and `bincount` and `trim_zeros`, whose shape depends on
# values, are refused with an error of ours.
REFUSED = ("argmax", "median", "clip", "bincount", "trim_zeros", "sort", "max", "percentile")


def kind_of(call, x):
    try:
        return np.asarray(call(x)).dtype
    except (TypeError, ValueError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", CALLS)
def test_results_have_numpys_dtype(source):
    call = eval(f"lambda x: {source}", {"np": np})
    for dtype in DTYPES:
        x = (np.diag([2, 3, 4]) + np.ones((3, 3))).astype(dtype)
        if dtype == "?":
            x[0, 1] = x[0, 2] = x[1, 2] = False  # regular
        want = kind_of(call, x)
        if want is None:
            continue  # NumPy refuses it
        try:
            got = stax.eval_shape(call, x).dtype
        except stax.StaxError:
            assert any(name in source for name in REFUSED), (source, dtype)
            continue
        assert got == want, (source, dtype)
