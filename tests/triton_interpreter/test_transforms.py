"""Transformations of arrays on a device, outside of programs: each operation runs there."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax import on_device
from stax.backends.triton.array import put
from stax.errors import ConcretizationError, DtypeError, MutationError, RangeError

X = (np.arange(6, dtype=np.float32).reshape(2, 3) - 2) / 3
NAMES = stax.numpy


@stax.custom_vjp
def doubled(v):
    return np.sin(v)


doubled.defvjp(lambda v: (np.sin(v), v), lambda r, g: (g * np.cos(r) * 2,))


@stax.custom_jvp
def tripled(v):
    return np.sin(v)


tripled.defjvp(lambda p, t: (np.sin(p[0]), 3 * t[0] * p[0]))


def network(w, v):
    h = stax.nn.gelu(v @ w)
    return (stax.nn.softmax(h, -1) * h).sum()


def by_value(v):
    return v * v if v.sum() > 0 else v**3


TRANSFORMED = {
    "grad": lambda x: stax.grad(network, (0, 1))(x.T, x),
    "value and grad": lambda x: stax.value_and_grad(lambda p: (p["w"] ** 2).sum())({"w": x}),
    "auxiliary": lambda x: stax.value_and_grad(lambda v: ((v**2).sum(), v * 2), has_aux=True)(x),
    "closed over": lambda x: stax.grad(lambda w: (x @ w).sum() * x.sum())(np.ones(3, np.float32)),
    "beside plain arrays": lambda x: stax.grad(lambda v: (v * X + X * v).sum())(x),
    "jvp": lambda x: stax.jvp(lambda v: np.sin(v) * v.sum(), (x,), (x,)),
    "vjp": lambda x: stax.vjp(np.sin, x)[1](x),
    "linearize": lambda x: stax.linearize(np.sin, x)[1](x),
    "hvp": lambda x: stax.hvp(lambda v: (v**3).sum(), (x,), (x,)),
    "hessian": lambda x: stax.hessian(lambda r: (r**3).sum())(x[0]),
    "jacfwd": lambda x: stax.jacfwd(lambda r: np.sin(r) * r.sum())(x[0]),
    "vmap": lambda x: stax.vmap(lambda r: r @ x[0] + r)(x),
    "vmap of vmap": lambda x: stax.vmap(lambda r: stax.vmap(lambda s: r * s)(x[:, 0]))(x[:, 1]),
    "mapped axes": lambda x: stax.vmap(np.outer, in_axes=(1, None), out_axes=2)(x, x[0]),
    "vmap of grad": lambda x: stax.vmap(stax.grad(lambda r: (r**3).sum()))(x),
    "a branch by value": lambda x: stax.grad(lambda v: by_value(v).sum())(x),
    "rules of the user": lambda x: stax.grad(lambda v: (doubled(v) + tripled(v)).sum())(x),
    "checkpoint": lambda x: stax.grad(
        lambda v: stax.checkpoint(lambda u: np.sin(np.cos(u)))(v).sum())(x),
    "a program inside": lambda x: stax.grad(lambda v: stax.jit(np.sin)(v).sum())(x),
    "scan": lambda x: stax.lax.scan(lambda c, r: (c + r, c.sum()), x[0], x),
    "grad of scan": lambda x: stax.grad(
        lambda v: stax.lax.scan(lambda c, r: (c * r, c.sum()), v[0], v)[1].sum())(x),
    "cond": lambda x: stax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v, x),
    "while": lambda x: stax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2 + 1, x),
    "descent": lambda x: stax.lax.fori_loop(
        0, 3, lambda i, p: p - 0.1 * stax.grad(lambda q: (q**2).sum())(p), x),
    "a changed part": lambda x: stax.grad(
        lambda v: (NAMES.asarray(v).at[0].set(1.0) * v).sum())(x),
    "an index on the device": lambda x: stax.grad(
        lambda v: (v[(x[:, 0] * 0).astype(int)] ** 2).sum())(x),
    "a gradient of zero": lambda x: stax.value_and_grad(
        lambda v: (v["a"] ** 2).sum() + v["c"].sum())({"a": x, "b": x, "c": np.ones(2)})[1]["b"],
    "a gradient of a constant": lambda x: stax.grad(lambda v: 1.0)(x),
    "a tangent of zero": lambda x: stax.jvp(lambda v: np.sign(v), (x,), (x,)),
    "a product with a Hessian of zero": lambda x: stax.hvp(lambda v: v.sum(), (x,), (x,)),
    "where": lambda x: stax.grad(lambda v: np.where(x > 0, v * v, 2 * v).sum())(x),
    "concatenate": lambda x: stax.grad(lambda v: (np.concatenate([v, x]) ** 2).sum())(x),
}  # fmt: skip


def compared(f):
    """The leaves of the results for an array on the device, checked against those for NumPy's."""
    found, wanted = stax.tree.leaves(f(put(X))), stax.tree.leaves(f(X))
    for a, b in zip(found, wanted, strict=True):
        a, b = (v.to_numpy() if isinstance(v, stax.DeviceArray) else np.asarray(v) for v in (a, b))
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transformation_of_an_array_on_a_device(name):
    assert all(isinstance(v, stax.DeviceArray) for v in compared(TRANSFORMED[name]))


def test_operations_of_a_transformation_are_kept_as_programs(machine):
    f = stax.grad(lambda v: (np.tanh(v) * 3).sum())
    x = put(X)
    f(x)
    kernels, launches, programs = (
        len(machine._functions), machine.launches, on_device._operation.cache_info().misses
    )  # fmt: skip
    sizes = []
    upload = machine.upload
    machine.upload = lambda address, array: (sizes.append(array.nbytes), upload(address, array))
    f(x)
    assert machine.launches > launches
    assert len(machine._functions) == kernels
    assert on_device._operation.cache_info().misses == programs
    assert X.nbytes not in sizes  # no array goes to the host and back


FUNCTIONS = {
    "where": lambda x: np.where(x > 0, x, 0),
    "concatenate": lambda x: np.concatenate([x, X, x * 2], axis=1),
    "stack": lambda x: np.stack([x, x]),
    "split": lambda x: np.split(x, 3, axis=1),
    "pad": lambda x: np.pad(x, ((1, 1), (0, 2))),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "dot": lambda x: np.dot(X, x.T),
    "norm": lambda x: np.linalg.norm(x),
    "sort": lambda x: np.sort(x[:, ::-1]),
    "expand": lambda x: np.expand_dims(x, 0),
    "broadcast": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "zeros": lambda x: (np.zeros_like(x), np.full_like(x, 3)),
    "softmax": lambda x: stax.nn.softmax(x),
    "stax.numpy": lambda x: (NAMES.where(x > 0, x, 0), NAMES.concatenate([x, x]), NAMES.asarray(x),
                             NAMES.array(x, np.float64, ndmin=3), NAMES.asarray(x, int)),
    "a text": lambda x: (x == "text", x != "text", x == None),  # noqa: E711 - NumPy compares each
    "a list": lambda x: (x == [0, 1, 2], x != np.float32(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_numpy(name):
    assert all(isinstance(v, stax.DeviceArray) for v in compared(FUNCTIONS[name]))


HOSTED = {
    "unique": lambda x: np.unique(x),
    "nonzero": lambda x: np.nonzero(x > 0),
    "where": lambda x: np.where(x > 0),
    "a function": lambda x: np.apply_along_axis(np.sum, 0, x),
    "a sum by the ufunc": lambda x: np.add.reduce(x),
}


@pytest.mark.parametrize("name", HOSTED)
def test_what_has_no_program_works_on_a_copy(name):
    assert not any(isinstance(v, stax.DeviceArray) for v in compared(HOSTED[name]))


def test_what_depends_on_the_type_alone_reads_nothing(machine):
    x = put(X)
    machine.download = None
    assert np.shape(x) == (2, 3)
    assert (np.ndim(x), np.size(x), np.iscomplexobj(x)) == (2, 6, False)
    assert np.result_type(x, np.float64) == np.float64


WRITES = {
    "copyto": lambda x: np.copyto(x, 1),
    "put": lambda x: np.put(x, [0], [1]),
    "fill_diagonal": lambda x: np.fill_diagonal(x, 0),
    "sum": lambda x: np.sum(X, out=x),
    "concatenate": lambda x: np.concatenate([x, x], out=x),
    "clip": lambda x: np.clip(X, 0, 1, x),
    "put_along_axis": lambda x: np.put_along_axis(arr=x, indices=X, values=0, axis=0),
    "add": lambda x: np.add.at(x, 0, 1),
    "multiply": lambda x: np.multiply(X, 2, x),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_array_on_a_device_is_never_written_to(name):
    x = put(X)
    with pytest.raises(MutationError, match=rf"{name}: .*on cuda:0 cannot be written to"):
        WRITES[name](x)
    np.testing.assert_array_equal(x, X)


def written(f):
    def run(x):
        out = np.zeros((2, 3), np.float32)
        f(out, x)
        return out

    return run


WRITTEN = {
    "copyto": written(lambda out, x: np.copyto(out, x)),
    "copyto by name": written(lambda out, x: np.copyto(dst=out, src=x, where=x > 0)),
    "place": written(lambda out, x: np.place(out, x > 0, [9])),
    "by place": written(lambda out, x: np.clip(x, 0, 1, out)),
    "sum": written(lambda out, x: np.sum(x, 0, None, out[0])),
    "dot": written(lambda out, x: np.dot(x[:, :2], x, out)),
    "at": written(lambda out, x: np.add.at(out, (slice(None), 0), x[:, 1])),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_array_of_the_process_is_written_to(name):
    compared(WRITTEN[name])


OF_NO_NUMBERS = {
    "text": np.array("text"), "scalar": np.str_("text"), "words": ["a", "b", "c"],
    "date": np.datetime64("2020"), "bytes": b"text", "objects": np.array([1, None, 0], object),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NO_NUMBERS)
def test_what_is_no_number_compares_as_with_numpy(name):
    other = OF_NO_NUMBERS[name]
    found = compared(lambda x: (x == other, x != other))
    assert all(isinstance(v, stax.DeviceArray) for v in found)


SMALL = np.array([1, 2, 250], np.uint8)
COMPARED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


@pytest.mark.parametrize("number", [257, -1, 2**70, 255])
@pytest.mark.parametrize("function", COMPARED)
def test_a_number_beyond_the_type_compares_by_its_value(function, number):
    x = put(SMALL)
    np.testing.assert_array_equal(function(x, number), function(SMALL, number))
    np.testing.assert_array_equal(function(number, x), function(number, SMALL))


@pytest.mark.parametrize("number", [256, -1])
def test_a_number_beyond_the_type_is_refused(number):
    x = put(SMALL)
    for f in (np.add, np.multiply, np.maximum, np.floor_divide, np.bitwise_and, np.left_shift):
        for operands in ((x, number), (number, x)):
            with pytest.raises(RangeError, match=rf"{number} out of bounds for uint8"):
                f(*operands)
    np.testing.assert_array_equal(x / number, SMALL / number)
    np.testing.assert_array_equal(np.add(x, number, dtype=int), np.add(SMALL, number, dtype=int))


def test_errors_are_those_of_arrays():
    x = put(X)
    with pytest.raises(DtypeError, match="must be arrays or numbers, found str"):
        stax.grad(lambda v, t: v.sum(), (0, 1))(x, "text")
    with pytest.raises(ConcretizationError):
        stax.jit(lambda v: v * 2 if (v + x).sum() > 0 else v)(X)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
