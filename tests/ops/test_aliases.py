"""What shares memory with what: a write to a result or to its operand, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp

SHARED = [
    "np.atleast_1d(x)", "np.atleast_3d(x)", "x.real", "np.real(x)", "x.conj()", "x.view()", "x[:]",
    "x[...]", "x[None]", "x[1, ...]", "x[1]", "x.T", "x.T.T", "np.flip(x)", "np.fliplr(x)",
    "np.rot90(x, 0)", "np.split(x, 1)[0]", "np.array_split(x, 3)[1]", "np.hsplit(x, 1)[0]",
    "np.unstack(x)[0]", "np.ravel(x)", "x.reshape(9)", "np.squeeze(x[None])",
    "np.moveaxis(x, 0, 1)", "np.rollaxis(x, 1)", "np.swapaxes(x, 0, 0)", "np.expand_dims(x, 0)",
    "np.matrix_transpose(x)", "np.nan_to_num(x, copy=False)", "np.astype(x, x.dtype, copy=False)",
    "np.einsum('ij->ij', x)", "np.einsum('ij->ji', x)", "np.einsum('ii->i', x)",
    "np.linalg.matrix_power(x, 1)", "x.reshape(-1)[1:]", "x.astype(x.dtype, copy=False)",
    "np.real_if_close(x)", "np.diff(x, n=0)", "np.ix_(x[0], x[1])[0]", "np.ravel(x[0], 'F')",
    "x.T.ravel('F')", "x[:1].reshape(3, 1, order='F')", "x.T.reshape(9, order='f')",
    "np.histogram_bin_edges(x[1], x[0])", "x[0].ravel('K')",
]  # fmt: skip
READ_ONLY = ["np.diagonal(x)", "x.diagonal(1)", "np.diag(x)", "np.broadcast_to(x, (2, 3, 3))"]
APART = [
    "x.copy()", "x.flatten()", "x.astype(x.dtype)", "np.array_equal(x, x) * x", "+x", "x + 0",
    "x * 1", "x ** 1", "np.positive(x)", "np.conj(x)", "x.round()", "np.round(x)", "np.roll(x, 0)",
    "np.nan_to_num(x)", "np.concatenate([x])", "np.vstack([x])", "np.hstack([x])",
    "np.dstack([x])", "np.block([x])", "np.stack([x])", "np.append(x, x[:0], axis=0)",
    "np.pad(x, 0)", "np.tile(x, 1)", "np.repeat(x, 1, axis=0)", "np.sum(x, axis=())",
    "np.max(x, axis=())", "np.mean(x, axis=())", "np.cumsum(x[:1], axis=0)", "np.sort(x)",
    "np.clip(x, None, 10)", "np.where(True, x, x)", "np.triu(x, -9)", "np.tril(x, 9)",
    "np.delete(x, [], axis=0)", "np.insert(x, [], 0, axis=0)", "np.resize(x, x.shape)",
    "np.maximum(x, x)", "np.take(x, [0], axis=0)", "x[[0]]", "x[True]", "x.flat[0:2]",
    "x[np.arange(3)]", "np.compress([True] * 3, x, axis=0)", "np.select([x == x], [x])",
    "np.fft.fftshift(x, axes=())", "np.ldexp(x, 0)", "np.unwrap(x, discont=99.0)", "np.fix(x)",
    "np.einsum('ij,->ij', x, 1.0)", "np.tensordot(x, 1.0, 0)", "np.take(x, 0, axis=0)",
    "x.take(1, axis=1)", "np.concatenate(x[:1])", "np.concatenate(list(x[:1]))", "np.ravel(x, 'F')",
    "x.reshape(9, order='F')", "lax.rev(x, (0,))", "lax.index_in_dim(x, 1)", "lax.stop_gradient(x)",
    "lax.dynamic_slice(x, (1, 0), (2, 3))", "lax.dynamic_index_in_dim(x, 1, 0, False)",
    "lax.integer_pow(x, 1)", "lax.bitcast_convert_type(x, x.dtype)", "lax.optimization_barrier(x)",
    "identity(x)", "identity(x.T)", "stax.checkpoint(lambda v: v)(x)",
    "lax.cond(True, same, same, x)",
    "stax.checkpoint(lambda v: {'a': v[0]})(x)['a']", "pulled(x)", "stax.jit(same)(x)",
    "stax.ad_checkpoint.checkpoint_name(x, 'x')",
]  # fmt: skip
SCALARS = [
    "x[0, 0]", "x[-1, -1]", "x[(1, 2)]", "x[1][2]", "x.flat[4]", "x.T[0, 1].T", "list(x[1])[0]",
]  # fmt: skip


identity = stax.custom_jvp(lambda v: v)
identity.defjvps(lambda tangent, result, v: tangent)
pulled = stax.custom_vjp(lambda v: v)
pulled.defvjp(lambda v: (v, None), lambda _, ct: (ct,))
NAMES = {
    "np": np, "stax": stax, "lax": stax.lax, "identity": identity, "pulled": pulled,
    "same": lambda v: v,
}  # fmt: skip


def outcome(source, which):
    make = eval(f"lambda x: {source}", NAMES)

    def run(given):
        x = given * 1.0
        y = make(x)
        if which == "result":
            y[...] = y * 2 + 7
        else:
            x[...] = x * 3 + 9
        return x, y

    return run


@pytest.mark.filterwarnings("ignore:.*cop")
@pytest.mark.parametrize("which", ["result", "operand"])
@pytest.mark.parametrize("source", SHARED + APART)
def test_writes_reach_what_numpy_lets_them_reach(source, which):
    run = outcome(source, which)
    given = np.arange(1.0, 10).reshape(3, 3)
    want = run(given)
    for got in (stax.jvp(run, (given,), (given,))[0], stax.jit(run)(given)):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


@pytest.mark.parametrize("source", READ_ONLY)
def test_read_only_views(source):
    given = np.arange(1.0, 10).reshape(3, 3)
    with pytest.raises(ValueError, match="read-only"):
        outcome(source, "result")(given)
    with pytest.raises(stax.MutationError, match="read-only"):
        stax.jit(outcome(source, "result"))(given)
    run = outcome(source, "operand")
    for got, want in zip(stax.jit(run)(given), run(given), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("source", SCALARS)
def test_an_element_keeps_its_value(source):
    run = outcome(source, "operand")
    given = np.arange(1.0, 10).reshape(3, 3)
    want = run(given)
    assert stax.jit(run)(given)[1] == want[1]
    assert stax.grad(lambda x: run(x)[1])(given).sum() == 1


def test_elements_are_exchanged():
    def exchanged(x):
        x = x * 1.0
        for i in range(2):
            kept = x[i]
            x[i] = x[3 - i]
            x[3 - i] = kept
        return x

    np.testing.assert_array_equal(stax.jit(exchanged)(np.arange(4.0)), [3, 2, 1, 0])
    np.testing.assert_array_equal(stax.jacrev(exchanged)(np.arange(4.0)), np.eye(4)[::-1])


def parts(x):
    z = x * (1 + 0j)
    z.real[0] = 5.0
    z.imag = np.arange(3.0)
    np.imag(z)[2] += 1.0
    return z


def flat(x):
    y = (x * 1.0).reshape(3, 1) + snp.zeros(2)
    z = y.T
    z.flat[1] = 7.0
    z.flat[4:] = [8.0, 9.0]
    kept = z.flat[0]
    z.flat = z.flat.copy() * 2
    return y, z, kept, np.sum(z.flat), np.add(z.flat, 1), sum(z.flat), len(z.flat)


@pytest.mark.parametrize("program", [parts, flat])
def test_parts_and_flat_write_through(program):
    x = np.arange(1.0, 4)
    for got, want in zip(stax.jit(program)(x), program(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_real_array_has_no_imaginary_part_to_set():
    def wrong(x):
        y = x * 1.0
        y.imag = 1.0
        return y

    with pytest.raises(TypeError, match="imaginary"):
        wrong(np.ones(2))
    with pytest.raises(stax.DtypeError, match="imaginary"):
        stax.jit(wrong)(np.ones(2))


def place_known(x):
    y = x * 1.0
    np.place(
        y, np.array([[True, False, True], [True, True, False], [False, False, True]]), [7.0, 8.0]
    )
    return y


def place_traced(x):
    y = x * 1.0
    np.place(y.T, x > 3.5, x[0] * 10)
    return y


@pytest.mark.parametrize("program", [place_known, place_traced])
def test_values_are_placed_one_after_the_other(program):
    given = np.arange(1.0, 10).reshape(3, 3)
    np.testing.assert_array_equal(stax.jit(program)(given), program(given))
    slope = stax.grad(lambda x: (program(x) ** 2).sum())(given)
    step = 1e-6 * np.eye(9).reshape(9, 3, 3)
    change = [
        ((program(given + d) ** 2).sum() - (program(given - d) ** 2).sum()) / 2e-6 for d in step
    ]
    np.testing.assert_allclose(slope.ravel(), change, rtol=1e-6, atol=1e-6)


def test_a_write_into_a_carry_names_the_way_out_of_loops():
    def body(i, carry):
        carry[0] = 1.0
        return carry

    with pytest.raises(stax.MutationError, match=r"argument of body(?s:.*)copy\(\)") as caught:
        stax.jit(lambda x: stax.lax.fori_loop(0, 3, body, x))(np.zeros(2))
    assert "write_back" not in str(caught.value)


OUTPUTS = [
    "np.fix(x, x)", "np.dot(x, x, x)", "np.take(x, [2, 0, 1], 0, out=x)", "np.cumsum(x, 0, out=x)",
    "np.clip(x, 2, 5, x)", "np.round(x, 1, out=x)", "np.add(x, 1, x)",
    "np.einsum('ij->ji', x, out=x)",
    "np.concatenate([x[:1], x[1:]], out=x)", "np.choose(0, [x], out=x)", "np.outer(x[0], x[1], x)",
    "np.linalg.multi_dot([x, x], out=x)", "np.stack([x[0], x[1], x[2]], out=x)",
]  # fmt: skip


@pytest.mark.parametrize("source", OUTPUTS)
def test_the_output_array_is_the_result(source):
    make = eval(f"lambda x: {source}", NAMES)

    def run(given):
        x = given * 1.0
        assert make(x) is x
        x += 1
        return x

    given = np.arange(1.0, 10).reshape(3, 3)
    np.testing.assert_allclose(stax.jit(run)(given), run(given), rtol=1e-15)


@pytest.mark.parametrize("order", ["A", "K"])
def test_an_order_of_elements_in_memory_is_refused_where_it_matters(order):
    for read in (
        lambda x: np.ravel(x.T, order),
        lambda x: (x.T * 2).flatten(order),
        lambda x: x.ravel(order=order),
        lambda x: np.reshape(x.T, (2, 3), order="A"),
    ):
        with pytest.raises(stax.ShapeError, match=r"(?s)order=.*memory.*order='F'"):
            stax.jit(read)(np.ones((2, 3)))
    column = np.arange(3.0).reshape(3, 1)
    np.testing.assert_array_equal(stax.jit(lambda x: x.T.ravel(order))(column), [0, 1, 2])
