"""The dispatcher, in C and in Python: what matches, what is built, and who owns what."""

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import stax
from stax import tree_util
from stax.backends.c import dispatch
from stax.backends.c.toolchain import find_toolchain

Point = collections.namedtuple("Point", "x y")

SOURCE = r"""
#include <stdint.h>
#include <string.h>
int32_t add(void **in, void **out, void *context) {
    double *a = in[0], *b = in[1], *o = out[0];
    for (int i = 0; i < 4; i++) o[i] = a[i] + b[i];
    return 0;
}
int32_t affine(void **in, void **out, void *context) {   /* array(4), float, int, bool */
    double *a = in[0], *o = out[0];
    double s = *(double *)in[1];
    int64_t k = *(int64_t *)in[2];
    uint8_t flip = *(uint8_t *)in[3];
    for (int i = 0; i < 4; i++) o[i] = (flip ? -1 : 1) * (s * a[i] + k);
    return 0;
}
int32_t fail(void **in, void **out, void *context) { return 7; }
int32_t scratch(void **in, void **out, void *context) {
    double *w = context;
    if (((uintptr_t)w & 63) != 0) return 1;
    for (int i = 0; i < 1000; i++) w[i] = *(double *)in[0] + i;
    memcpy(out[0], w, 8000);
    return 0;
}
int32_t context(void **in, void **out, void *context) {
    *(int64_t *)out[0] = *(int64_t *)context;
    return 0;
}
int32_t increment(void **in, void **out, void *context) {
    double *a = in[0], *o = out[0];
    for (int i = 0; i < 4; i++) o[i] = a[i] + 1;
    return 0;
}
"""


@functools.cache
def library() -> Any:
    toolchain = find_toolchain()
    if toolchain is None:
        return None
    return toolchain.load(SOURCE)


KINDS = ["c", "python"] if library() is not None else []


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Any:
    return functools.partial(dispatch.make_dispatcher, compiled=request.param == "c")


X = np.arange(4.0)
VECTOR = [(np.dtype("f8"), (4,))]


def refuse(args: tuple, kwargs: dict) -> Any:
    return ("slow", args, kwargs)


def test_c_dispatcher_is_available_wherever_there_is_a_compiler() -> None:
    if library() is None or "Python.h" in dispatch.compiled_dispatcher_fault():
        assert isinstance(dispatch.make_dispatcher(), dispatch.PythonDispatcher)
    else:
        assert dispatch.compiled_dispatcher_fault() == ""
        assert type(dispatch.make_dispatcher()).__name__ == "Dispatcher"


def test_flat_call(make: Any) -> None:
    d = make(refuse)
    assert d.add_entry((X, X), {}, library().address("add"), VECTOR, 0)
    np.testing.assert_array_equal(d(X, X + 1), 2 * X + 1)
    assert d(X, X) is not d(X, X)
    assert (d.hits, d.misses, d.entry_count) == (3, 0, 1)


@pytest.mark.parametrize(
    "other",
    [X[:3], X.reshape(2, 2), X.astype("f4"), X.astype(">f8"), np.arange(8)[::2], list(X), 1.0,
     None, X.view(np.recarray), np.ma.array(X), np.float64(1), X.astype(object), "text", (X,),
     {"a": X}],
)  # fmt: skip
def test_what_does_not_match_goes_the_slow_way(make: Any, other: Any) -> None:
    d = make(refuse)
    d.add_entry((X, X), {}, library().address("add"), VECTOR, 0)
    assert d(X, other)[0] == "slow"
    assert d(other, X)[0] == "slow"
    assert d(X)[0] == "slow"
    assert d(X, X, X)[0] == "slow"
    assert d(X, b=X)[0] == "slow"
    assert d(X, X, other=other)[0] == "slow"
    assert d.hits == 0


def unaligned(array: np.ndarray) -> np.ndarray:
    moved = np.frombuffer(bytearray(array.nbytes + 1), np.uint8)[1:].view(array.dtype)
    moved = moved.reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


@pytest.mark.parametrize(
    "other",
    [np.arange(8.0)[::2], np.arange(4.0)[::-1], np.broadcast_to(3.0, 4), unaligned(X),
     np.ones((4, 5))[:, 2], X.astype("c16").imag],
)  # fmt: skip
def test_arrays_that_lie_otherwise_are_copied(make: Any, other: np.ndarray) -> None:
    d = make(refuse)
    assert d.add_entry((other, X), {}, library().address("add"), VECTOR, 0)
    for first, second in [(X, other), (other, X), (other, other), (X, X)]:
        np.testing.assert_array_equal(d(first, second), first + second)
    assert (d.hits, d.misses, d.entry_count) == (4, 0, 1)
    seen = []
    d.add_entry(({"a": [X]}, 1.0), {}, lambda inputs, outputs: seen.extend(inputs), VECTOR, 0)
    d({"a": [other]}, 2.5)
    assert seen[0].flags.carray
    assert (seen[0].tolist(), seen[1]) == (other.tolist(), 2.5)


def test_copies_are_kept_while_others_drop_the_array(make: Any) -> None:
    d = make(refuse)
    size = 1 << 18
    arrays = [np.ones((2, size)).T[:, 0], np.ones((size, 2))[:, 1]]
    result = [(np.dtype("f8"), (size,))]
    total = lambda inputs, outputs: np.add(*inputs, out=outputs[0])
    assert d.add_entry((arrays,), {}, total, result, 0)
    done = threading.Event()

    def drop() -> None:
        while not done.is_set():
            for k in (0, 1):
                arrays[k] = np.ones((size, 2))[:, k]

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        assert all((d(arrays) == 2).all() for _ in range(10))
    finally:
        done.set()
        thread.join()
    assert d.misses == 0


def test_swapped_arrays_do_not_match(make: Any) -> None:
    d = make(refuse)
    swapped = X.view(X.dtype.newbyteorder())
    assert not d.add_entry((X, swapped), {}, library().address("add"), VECTOR, 0)
    d.add_entry((X, X), {}, library().address("add"), VECTOR, 0)
    assert d(X, swapped)[0] == "slow"


def test_scalars_are_passed_by_value_and_told_apart_by_type(make: Any) -> None:
    d = make(refuse)
    address = library().address("affine")
    assert d.add_entry((X, 1.0, 1, True), {}, address, VECTOR, 0)
    np.testing.assert_array_equal(d(X, 2.5, -3, False), 2.5 * X - 3)
    np.testing.assert_array_equal(d(X, 2.5, 2**62, True), -(2.5 * X + 2**62))
    for bad in [(X, 2, 1, True), (X, True, 1, True), (X, 1.0, 1.0, True), (X, 1.0, True, True),
                (X, 1.0, 1, 1), (X, 1.0, 2**64, True), (X, np.float64(1), 1, True)]:  # fmt: skip
        assert d(*bad)[0] == "slow"
    assert d.add_entry((X, np.float64(1), np.int64(1), np.bool_(True)), {}, address, VECTOR, 0)
    np.testing.assert_array_equal(d(X, np.float64(2), np.int64(5), np.bool_(False)), 2 * X + 5)
    assert d(X, np.float32(2), np.int64(5), np.bool_(False))[0] == "slow"
    assert not d.add_entry((X, 1.0, 2**64, True), {}, address, VECTOR, 0)


def collect(inputs: list, outputs: list) -> None:
    for k, out in enumerate(outputs):
        out[...] = inputs[k]


def test_complex_numbers_are_passed_by_value(make: Any) -> None:
    d = make(refuse)
    outputs = [(np.complex128, ())]
    assert d.add_entry((1j,), {}, collect, outputs, 0)
    assert d(2.5 - 3j) == 2.5 - 3j
    assert d(2.5)[0] == d(np.complex128(1j))[0] == "slow"


class Pair:
    """A registered class with one array, a tuple, and a name that is no child."""

    def __init__(self, first: Any, rest: Any, name: Any) -> None:
        self.first, self.rest, self.name = first, rest, name


def take_apart(pair: Pair) -> tuple[Any, Any]:
    if pair.name == "broken":
        raise ArithmeticError
    return [pair.first + 0, pair.rest], pair.name  # a new array: nobody else holds it


tree_util.register_pytree_node(Pair, take_apart, lambda name, parts: Pair(*parts, name))


def test_registered_classes_are_taken_apart(make: Any) -> None:
    d = make(refuse)
    two = [(np.float64, (4,)), (np.float64, (4,))]
    assert d.add_entry((Pair(X, (X,), "a"),), {}, collect, two, ("tuple", [0, 1]))
    for k in range(100):
        first, second = d(Pair(X + k, (X * k,), "a"))
        np.testing.assert_array_equal(first, X + k)
        np.testing.assert_array_equal(second, X * k)
    assert d.hits == 100
    others = [Pair(X, (X,), "b"), Pair(X, [X], "a"), Pair(X, (X, X), "a"), Pair(X, (X,), "broken")]
    assert all(d(other)[0] == "slow" for other in [*others, (X, (X,)), X, object()])
    assert not make(refuse).add_entry((object(),), {}, collect, two, 0)
    assert not make(refuse).add_entry((others[-1],), {}, collect, two, 0)


def test_ordered_dicts_keep_their_order(make: Any) -> None:
    d = make(refuse)
    two = [(np.float64, (4,)), (np.float64, (4,))]
    given = collections.OrderedDict(b=X, a=X * 2)
    assert d.add_entry((given,), {}, collect, two, ("tuple", [0, 1]))
    first, second = d(given)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X * 2)
    assert d(collections.OrderedDict(a=X, b=X))[0] == "slow"
    assert d({"a": X, "b": X})[0] == "slow"


def test_trees_in_and_out(make: Any) -> None:
    a, b, c, e = (np.full(2, float(k)) for k in range(4))
    args = ({"w": a, "b": [b, None]}, Point(c, (e,)))
    tree = ("dict", ["z", "a"], [("tuple", [0, ("list", [1])]),
            ("call", Point, [2, ("tuple", [3, None, ("const", "text")])])])  # fmt: skip
    d = make(refuse)
    assert d.add_entry(args, {}, collect, [(np.dtype("f8"), (2,))] * 4, tree)
    out = d({"b": [b, None], "w": a}, Point(c, (e,)))
    assert list(out) == ["z", "a"]
    assert type(out["z"]) is tuple
    assert type(out["z"][1]) is list
    # dict leaves come in the order of the sorted keys: b before w
    np.testing.assert_array_equal(out["z"][0], b)
    np.testing.assert_array_equal(out["z"][1][0], a)
    assert type(out["a"]) is Point
    np.testing.assert_array_equal(out["a"].x, c)
    np.testing.assert_array_equal(out["a"].y[0], e)
    assert out["a"].y[1:] == (None, "text")
    for bad in [({"w": a, "b": (b, None)}, args[1]), ({"w": a, "b": [b]}, args[1]),
                ({"w": a}, args[1]), ({"w": a, "c": [b, None]}, args[1]), (args[0], (c, (e,))),
                ({"w": a, "b": [b, None], "d": a}, args[1])]:  # fmt: skip
        assert d(*bad)[0] == "slow"


def test_keyword_arguments_in_any_order(make: Any) -> None:
    d = make(refuse)
    assert d.add_entry((), {"p": X, "q": X}, library().address("add"), VECTOR, 0)
    np.testing.assert_array_equal(d(q=X, p=X + 1), 2 * X + 1)
    np.testing.assert_array_equal(d(p=X, q=X), 2 * X)
    dynamic = {"".join(["", "p"]): X, "".join(["q"]): X}
    np.testing.assert_array_equal(d(**dynamic), 2 * X)
    assert d(p=X)[0] == "slow"
    assert d(p=X, r=X)[0] == "slow"


def test_static_arguments_are_compared_and_not_passed(make: Any) -> None:
    d = make(refuse)

    def entry(value: Any, result: float) -> None:
        def run(inputs: list, outputs: list) -> None:
            assert len(inputs) == 1
            outputs[0][...] = inputs[0] + result

        assert d.add_entry((X, value), {"mode": "m"}, run, VECTOR, 0, statics={1, "mode"})

    for k, value in enumerate([1, 1.0, True, "one", (1, 2), 0.0, -0.0]):
        entry(value, 10.0 * k)
    for k, value in enumerate([1, 1.0, True, "one", (1, 2), 0.0, -0.0]):
        np.testing.assert_array_equal(d(X, value, mode="m"), X + 10 * k)
    assert d(X, 2, mode="m")[0] == "slow"
    assert d(X, 1, mode="n")[0] == "slow"

    class Hostile:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            d.clear_entries()
            raise RuntimeError("no comparison")

    first, second = Hostile(), Hostile()
    entry(first, 1.0)
    if isinstance(d, dispatch.PythonDispatcher):
        return
    assert d(X, second, mode="m")[0] == "slow"
    assert d.entry_count == 0


def test_trace_depth_sends_every_call_the_slow_way(make: Any) -> None:
    d = make(refuse)
    d.add_entry((X, X), {}, library().address("add"), VECTOR, 0)
    assert dispatch.set_trace_depth(1) == 0
    try:
        assert d(X, X)[0] == "slow"
        np.testing.assert_array_equal(d.call_fast((X, X), {}), 2 * X)
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(d(X, X)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(seen[0], 2 * X)
    finally:
        assert dispatch.set_trace_depth(0) == 1
    np.testing.assert_array_equal(d(X, X), 2 * X)
    assert d.call_fast((X,), {}) is NotImplemented


def test_errors_of_a_program(make: Any) -> None:
    d = make(refuse)
    d.add_entry((X,), {}, library().address("fail"), VECTOR, 0)
    with pytest.raises(RuntimeError, match="code 7"):
        d(X)

    def on_error(code: int) -> Any:
        raise IndexError(f"index {code}")

    d = make(refuse)
    d.add_entry((X,), {}, library().address("fail"), VECTOR, 0, on_error=on_error)
    with pytest.raises(IndexError, match="index 7"):
        d(X)

    def broken(inputs: list, outputs: list) -> None:
        raise KeyError("inside")

    d = make(refuse)
    d.add_entry((X,), {}, broken, VECTOR, 0)
    with pytest.raises(KeyError, match="inside"):
        d(X)
    with pytest.raises(ZeroDivisionError):
        make(lambda args, kwargs: 1 / 0)(X)


@pytest.mark.parametrize(
    "tree", [3, -1, "x", ("tuple",), ("dict", ["a"], []), ("what", [0]), ("tuple", [9]), 1.5]
)
def test_bad_output_trees_are_refused(make: Any, tree: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        make(refuse).add_entry((X,), {}, library().address("increment"), VECTOR, tree)


def test_workspace_context_and_constants(make: Any) -> None:
    d = make(refuse)
    d.add_entry((1.0,), {}, library().address("scratch"), [("f8", (1000,))], 0,
                workspace_bytes=8000, release_gil=True)  # fmt: skip
    np.testing.assert_array_equal(d(2.0), 2.0 + np.arange(1000))
    number = ctypes.c_int64(42)
    d.add_entry((), {}, library().address("context"), [("i8", ())], 0,
                context=ctypes.addressof(number), keep_alive=number)  # fmt: skip
    assert d() == 42
    assert d().shape == ()
    d.add_entry((X,), {}, library().address("add"), VECTOR, 0, constants=[X * 10])
    np.testing.assert_array_equal(d(X), X * 11)


def test_donated_memory_is_reused_only_when_that_is_safe(make: Any) -> None:
    d = make(refuse)
    run = library().address("increment")
    d.add_entry((X,), {}, run, VECTOR, 0, donated={0: 0})
    d.add_entry((X, X), {}, library().address("add"), VECTOR, 0, donated={0: 0})
    x = X.copy()
    assert d(x) is x
    np.testing.assert_array_equal(x, X + 1)
    locked = X.copy()
    locked.flags.writeable = False
    assert d(locked) is not locked
    np.testing.assert_array_equal(locked, X)
    both = X.copy()
    out = d(both, both)
    assert out is not both
    np.testing.assert_array_equal(out, 2 * X)


def test_many_leaves_and_results(make: Any) -> None:
    n = 200
    args = [np.full(3, float(k)) for k in range(n)]
    d = make(refuse)
    assert d.add_entry((args,), {}, collect, [("f8", (3,))] * n, ("list", list(range(n))))
    for k, out in enumerate(d(args)):
        np.testing.assert_array_equal(out, args[k])


def test_many_signatures(make: Any) -> None:
    d = make(refuse)
    for n in range(1, 60):
        d.add_entry((np.zeros(n),), {}, collect, [("f8", (n,))], 0)
    for n in (1, 30, 59, 30):
        assert d(np.ones(n)).sum() == n


def test_attributes_binding_and_names(make: Any) -> None:
    d = make(lambda args, kwargs: args)

    def original(x: Any) -> None:
        """Doc."""

    functools.update_wrapper(d, original)
    d.lower = 5
    assert (d.__name__, d.__wrapped__, d.lower) == ("original", original, 5)
    assert weakref.ref(d)() is d

    class Model:
        method = d

    model = Model()
    assert model.method(1) == (model, 1)
    assert Model.method is d


def test_a_cycle_through_the_slow_path_is_collected(make: Any) -> None:
    class Owner:
        def slow(self, args: tuple, kwargs: dict) -> Any:
            return self

    owner = Owner()
    owner.d = make(owner.slow)
    owner.d.add_entry((X,), {}, collect, VECTOR, 0, keep_alive=owner)
    owner.d.self = owner.d
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_threads_do_not_share_a_workspace(make: Any) -> None:
    d = make(refuse)
    d.add_entry((1.0,), {}, library().address("scratch"), [("f8", (1000,))], 0,
                workspace_bytes=8000, release_gil=True)  # fmt: skip
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(300):
            if not np.array_equal(d(float(k)), k + np.arange(1000)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_of_large_results_is_reused_once_they_are_dead() -> None:
    shape = (5 * 1024, 1024)
    first = dispatch.empty_result(np.float64, shape)
    first[...] = 3
    assert first.flags.c_contiguous
    assert first.flags.writeable
    assert first.shape == shape
    address = first.ctypes.data
    view = first[1:]
    second = dispatch.empty_result(np.float64, shape)
    assert second.ctypes.data != address
    del first
    gc.collect()
    assert (view == 3).all()
    third = dispatch.empty_result("f8", shape)
    assert third.ctypes.data != address  # a view keeps the memory
    del view
    fourth = dispatch.empty_result(np.float32, (2 * shape[0] - 5, shape[1]))
    if not dispatch.compiled_dispatcher_fault():
        assert fourth.ctypes.data == address
        assert address % 64 == 0
    del second, third, fourth
    kept = dispatch.release_pool()
    assert kept >= 3 * 40 * 2**20 or dispatch.compiled_dispatcher_fault()
    assert dispatch.release_pool() == 0
    assert dispatch.empty_result("f8", ()).shape == ()
    assert dispatch.empty_result("i4", (0, 10**9)).size == 0


@pytest.mark.parametrize("count", [2**16, 2**18, 2**20, 2**23])
def test_results_own_their_memory_and_may_be_resized(count: int) -> None:
    array = dispatch.empty_result(np.float64, (count,))
    assert array.flags.owndata
    assert array.base is None
    array[:] = np.arange(count)
    address = array.ctypes.data
    array.resize(2 * count, refcheck=False)
    assert np.array_equal(array[:count], np.arange(count))
    array.resize(10, refcheck=False)
    assert np.array_equal(array, np.arange(10))
    del array
    again = dispatch.empty_result(np.float64, (count,))
    if not dispatch.compiled_dispatcher_fault():
        assert again.ctypes.data == address or again.ctypes.data % 64 == 0
    dispatch.release_pool()


def test_no_more_memory_waits_than_the_pool_is_allowed() -> None:
    if dispatch.compiled_dispatcher_fault():
        pytest.skip("the pool is part of the compiled dispatcher")
    dispatch.release_pool()
    small = [dispatch.empty_result(np.uint8, (n << 20,)) for n in range(1, 31) for _ in range(2)]
    large = dispatch.empty_result(np.uint8, (40 << 20,))
    del small, large
    kept = dispatch.release_pool()
    assert 256 << 20 < kept <= (256 + 41) << 20


def test_a_training_loop_touches_no_fresh_pages() -> None:
    resource = pytest.importorskip("resource")
    if dispatch.compiled_dispatcher_fault():
        pytest.skip("the pool is part of the compiled dispatcher")
    step = stax.jit(lambda state, x: [s * 0.5 + x for s in state])
    x = np.ones((512, 800), np.float32)
    state = [x * k for k in range(4)]
    for _ in range(4):
        state = step(state, x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        state = step(state, x)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 400  # 1600 for each call's results if they were fresh


@pytest.mark.skipif(not KINDS, reason="the C dispatcher needs a compiler")
def test_reference_counts_stay_level_over_many_calls() -> None:
    d = dispatch.make_dispatcher(refuse)
    a = np.arange(4.0)
    key, dtype, name, scalar = "unlikely key", np.dtype("f8"), Point, np.float32(3)
    tree = ("dict", [key], [("tuple", [0, None, ("const", name), ("call", Point, [0, 0])])])
    args = ({key: a, "b": [a, None, 1.5]}, Point(a, scalar))
    kwargs = {"mode": name, "x": a}

    def run(inputs: list, outputs: list) -> None:
        outputs[0][...] = inputs[0]

    d.add_entry(args, kwargs, run, [(dtype, (4,))], tree, statics={"mode"}, constants=[a])
    d.add_entry((a, a), {}, library().address("add"), VECTOR, 0, release_gil=True)
    d.add_entry((a,), {}, library().address("fail"), VECTOR, 0)
    watched = [a, key, dtype, name, scalar, None, run, refuse, args, args[0], d, Point, True]

    def calls(count: int) -> None:
        for _ in range(count):
            d(*args, **kwargs)
            d(a, a)
            d(a, 1)
            d(a, b=a)
            d.call_fast((a, a), {})
            d.add_entry((a, a, a), {}, run, VECTOR, 0)
            d.add_entry((a, object()), {}, run, VECTOR, 0)
            with pytest.raises(RuntimeError):
                d(a)
            if d.entry_count > 50:
                break

    calls(40)
    before = [sys.getrefcount(item) for item in watched]
    blocks = sys.getallocatedblocks()
    for _ in range(20_000):
        d(*args, **kwargs)
        d(a, a)
        d(a, 1)
        d(a, b=a)
        d.call_fast((a, a), {})
        d.add_entry((a, object()), {}, run, VECTOR, 0)
    after = [sys.getrefcount(item) for item in watched]
    assert all(abs(x - y) < 10 for x, y in zip(before, after, strict=True)), (before, after)
    assert sys.getallocatedblocks() - blocks < 200
    copies = d.entry_count
    d.clear_entries()
    assert copies > 3
    assert sys.getrefcount(run) < before[6]
