"""Checkpointed functions: what is kept, when it is recomputed, and that nothing else changes."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.core.graph import check_graph
from stax.core.staging import eval_graph
from stax.experimental import io_callback
from stax.testing import check_grads
from stax.transforms.partition import PartitionOptions
from stax.transforms.simplify import inline_calls, simplify


def layer(x: Any) -> Any:
    return np.tanh(np.sin(x) * np.exp(x))


def test_derivatives_are_those_of_the_function() -> None:
    f = stax.checkpoint(lambda x: layer(stax.checkpoint(layer)(x)))
    g = lambda x: layer(layer(x))
    x = np.arange(3.0) / 3
    np.testing.assert_array_equal(f(x), g(x))
    for transform in (
        stax.jacrev,
        stax.jacfwd,
        stax.hessian,
        lambda h: stax.jacrev(stax.jacrev(h)),
    ):
        np.testing.assert_allclose(transform(f)(x), transform(g)(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(stax.vmap(stax.grad(f))(x), stax.vmap(stax.grad(g))(x), rtol=1e-13)
    check_grads(f, (x,), 2)


def test_closed_over_traced_values_are_differentiated() -> None:
    def loss(w: Any, x: Any) -> Any:
        return stax.checkpoint(lambda v: np.sin(w * v))(x) * w

    want = stax.grad(lambda w, x: np.sin(w * x) * w, (0, 1))(0.7, 0.3)
    np.testing.assert_allclose(stax.grad(loss, (0, 1))(0.7, 0.3), want)
    np.testing.assert_allclose(
        stax.vmap(stax.grad(loss), (0, None))(np.array([0.7]), 0.3)[0], want[0]
    )


def test_static_arguments_and_errors() -> None:
    f = stax.checkpoint(lambda x, flag: x * x if flag else x, static_argnums=(1,))
    assert stax.grad(f)(3.0, True) == 6.0
    assert stax.grad(f)(3.0, False) == 1.0
    with pytest.raises(errors.DtypeError, match="static"):
        stax.grad(stax.checkpoint(lambda x, s: x))(3.0, "text")
    with pytest.raises(errors.ConcretizationError):
        stax.grad(stax.checkpoint(lambda x: x if x > 0 else -x))(3.0)


def test_a_checkpoint_with_options_is_a_decorator() -> None:
    @stax.checkpoint(memory_budget=0.5)
    def half(x: Any) -> Any:
        return np.sin(np.sin(x))

    @stax.checkpoint(policy=stax.checkpoint_policies.everything_saveable)
    def kept(x: Any) -> Any:
        return np.sin(np.sin(x))

    @stax.checkpoint()
    def bare(x: Any) -> Any:
        return np.sin(np.sin(x))

    want = np.cos(np.sin(0.3)) * np.cos(0.3)
    for f in (half, kept, bare):
        assert stax.grad(f)(0.3) == pytest.approx(want, rel=1e-14)
        assert stax.make_ir(f)(0.3).eqns[0].op == "checkpoint"
    with pytest.raises(errors.ConfigurationError, match="not a budget"):
        stax.checkpoint(memory_budget="lots")
    with pytest.raises(TypeError, match="takes a function"):
        stax.checkpoint(policy=stax.checkpoint_policies.dots_saveable)(3)


def test_static_arguments_of_a_checkpoint_are_named_like_those_of_jit() -> None:
    def power(x: Any, kind: str = "line") -> Any:
        return x * x if kind == "square" else x

    f = stax.checkpoint(power, static_argnums=1)
    assert stax.grad(f)(3.0, "square") == stax.grad(f)(3.0, kind="square") == 6.0
    assert stax.grad(f)(3.0) == 1.0
    assert stax.grad(stax.checkpoint(power, static_argnums=(-1,)))(3.0, "square") == 6.0
    for make in (stax.checkpoint, stax.jit):
        with pytest.raises(errors.StaticArgumentError, match=r"=5 is out of range: power takes 2"):
            make(power, static_argnums=5)
        for wrong in (1.5, "kind", (True,)):
            with pytest.raises(errors.StaticArgumentError, match="must be whole numbers"):
                make(power, static_argnums=wrong)
    with pytest.raises(errors.DtypeError, match="static in checkpoint with static_argnums"):
        stax.grad(stax.checkpoint(power))(3.0, "square")


def regions(graph: Any) -> dict[int, list[str]]:
    """The names of the equations of each recomputation region."""
    found: dict[int, list[str]] = {}
    for eqn in graph.eqns:
        if eqn.region:
            assert eqn.phase == "backward"
            found.setdefault(eqn.region, []).append(eqn.op)
    return found


def test_the_joint_graph_recomputes_each_function_in_its_region() -> None:
    f = stax.checkpoint(layer)
    graph = stax.make_ir(stax.grad(lambda x: f(f(x))))(0.3)
    check_graph(graph)
    flat = simplify(inline_calls(graph))
    check_graph(flat)
    found = regions(flat)
    assert len(found) == 2
    for ops in found.values():
        assert {"sin", "exp", "mul"} <= set(ops)
    # The regions come in the order in which the backward pass needs them: last call first.
    order = [e.region for e in flat.eqns if e.region]
    assert order == sorted(order, key=order.index)
    np.testing.assert_allclose(
        eval_graph(flat, [0.3])[0], stax.grad(lambda x: layer(layer(x)))(0.3), rtol=1e-14
    )


def recomputed(policy: Any, f: Any) -> set[str]:
    graph = stax.make_ir(stax.grad(stax.checkpoint(f, policy=policy)))(0.3)
    flat = simplify(inline_calls(graph))
    np.testing.assert_allclose(eval_graph(flat, [0.3])[0], stax.grad(f)(0.3), rtol=1e-14)
    return {op for ops in regions(flat).values() for op in ops}


def test_policies() -> None:
    name, policies = stax.checkpoint_name, stax.checkpoint_policies

    def f(x: Any) -> Any:
        a = name(np.sinh(x * x), "a")
        b = name(np.cosh(a * x), "b")
        return np.exp(np.sin(b))

    forward = {"sinh", "cosh"}
    assert forward <= recomputed(None, f)
    assert forward <= recomputed(policies.nothing_saveable, f)
    assert "exp" not in recomputed(policies.everything_saveable, f)
    # sinh and cosh also are derivative factors of each other; their arguments tell them apart.
    assert "exp" in recomputed(policies.save_only_these_names("a", "b"), f)
    only_a = policies.save_only_these_names("a")
    but_b = policies.save_any_names_but_these("b")
    assert recomputed(only_a, f) == recomputed(but_b, f)
    both = policies.save_from_both_policies(only_a, policies.save_only_these_names("b"))
    assert recomputed(both, f) == recomputed(policies.save_only_these_names("a", "b"), f)
    assert recomputed(policies.save_anything_except_these_names("a"), f) >= {"sinh"}


def test_a_name_under_no_checkpoint_is_the_value() -> None:
    assert stax.checkpoint_name(3.0, "a") == 3.0
    assert stax.grad(lambda x: stax.checkpoint_name(x * x, "a"))(3.0) == 6.0
    np.testing.assert_array_equal(
        stax.vmap(lambda x: stax.checkpoint_name(x * x, "a"))(np.arange(3.0)), [0.0, 1.0, 4.0]
    )


class Watch:
    """Counts how many arrays made by `step` are alive at the same time."""

    def __init__(self) -> None:
        self.alive = 0
        self.peak = 0
        self.runs = 0

    def note(self, array: Any) -> None:
        self.runs += 1
        self.alive += 1
        self.peak = max(self.peak, self.alive)
        weakref.finalize(array, self.gone)

    def gone(self) -> None:
        self.alive -= 1


def test_intermediate_values_are_freed_as_the_backward_pass_goes() -> None:
    x = np.ones(50_000)
    import tracemalloc

    def chain(v: Any) -> Any:
        for _ in range(8):
            v = np.sin(v)
        return v

    def peak(f: Any) -> float:
        _, pull = stax.vjp(f, x)
        gc.collect()
        tracemalloc.start()
        pull(x)
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top / x.nbytes

    def kept(f: Any) -> float:
        tracemalloc.start()
        held = stax.vjp(f, x)
        now, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del held
        return now / x.nbytes

    assert kept(chain) > 7.5
    assert kept(stax.checkpoint(chain)) < 2.6  # the input and the result
    assert peak(stax.checkpoint(chain)) < 12.5


@pytest.mark.parametrize(("length", "segments"), [(1, 1), (7, 3), (16, 4), (5, 5)])
def test_checkpoint_sequential(length: int, segments: int) -> None:
    steps = [lambda x, k=k: np.sin(x) + 0.1 * k for k in range(length)]

    def plain(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    f = lambda x: stax.checkpoint_sequential(steps, segments, x)
    assert f(0.3) == plain(0.3)
    assert stax.grad(f)(0.3) == pytest.approx(stax.grad(plain)(0.3), rel=1e-13)
    flat = simplify(inline_calls(stax.make_ir(stax.grad(f))(0.3)))
    assert len(regions(flat)) <= segments
    assert sum(e.op == "sin" for e in flat.eqns) <= 2 * length


def test_checkpoint_sequential_rejects_bad_segments() -> None:
    with pytest.raises(errors.StaticArgumentError, match="segments=3"):
        stax.checkpoint_sequential([np.sin], 3, 1.0)


def test_the_text_of_a_graph_with_regions_is_stable() -> None:
    f = stax.checkpoint(layer)
    texts = {str(stax.make_ir(stax.grad(lambda x: f(f(x))))(0.3)) for _ in range(3)}
    assert len(texts) == 1
    assert "bwd@1 " in texts.pop()


def test_policies_see_through_jit() -> None:
    inner = stax.jit(lambda x, w: np.sin(x @ w))
    x, w = np.ones((4, 4)), np.eye(4)

    def dots(policy: Any) -> int:
        f = stax.checkpoint(lambda x, w: np.cos(inner(x, w)).sum(), policy=policy)
        flat = simplify(inline_calls(stax.make_ir(stax.value_and_grad(f))(x, w)))
        return sum(e.op == "dot_general" for e in flat.eqns)

    assert dots(None) == 3
    assert dots(stax.checkpoint_policies.dots_saveable) == 2


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="dots_saveable"):
        stax.checkpoint(np.sin, policy="dots")


def test_what_may_neither_be_saved_nor_recomputed_is_named() -> None:
    joint = stax.joint_graph(lambda x, w: np.sin(x @ w).sum())(np.ones((4, 4)), np.ones((4, 4)))
    options = PartitionOptions(
        may_save=lambda var, eqn: eqn.op != "dot_general", save_everything=False
    )
    with pytest.raises(errors.ConfigurationError, match="dot_general"):
        joint.partition(options=options)


def test_prints_are_made_once_and_other_effects_refused(capfd: Any) -> None:
    def f(x: Any) -> Any:
        stax.debug.print("x is {}", x)
        return np.sin(np.sin(x))

    want = stax.grad(lambda x: np.sin(np.sin(x)))(0.5)
    assert stax.grad(stax.checkpoint(f))(0.5) == pytest.approx(want)
    assert stax.jit(stax.grad(stax.checkpoint(f)))(0.5) == pytest.approx(want)
    assert capfd.readouterr().out.count("x is 0.5") == 2

    def g(x: Any) -> Any:
        return io_callback(lambda v: v, stax.ShapeDtypeStruct((), np.float64), x) * x

    with pytest.raises(errors.ConfigurationError, match="side effect"):
        stax.grad(stax.checkpoint(g))(0.5)


def test_one_function_is_no_chain() -> None:
    with pytest.raises(errors.StaticArgumentError, match="sin is one function, not a sequence"):
        stax.checkpoint_sequential(np.sin, 1, np.ones(3))
