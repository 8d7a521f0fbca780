"""The partition on programs of the user: gradients staged whole, checkpoints, calls, budgets."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.core.graph import BACKWARD, Eqn, check_graph
from stax.core.primitive import FALLBACK, NOT_DIFFERENTIABLE, REGISTRY, Primitive, Recompute
from stax.core.staging import eval_graph
from stax.core.text import parse_graph
from stax.primitives.transcendental import sin_p
from stax.transforms.joint import joint_of
from stax.transforms.partition import PartitionOptions, partition
from stax.transforms.phases import split_joint
from stax.transforms.rematerialise import rematerialise
from stax.transforms.simplify import cse, inline_calls, simplify
from tests.programs import random_program
from tests.programs_mixed import MIXED_RULES

RNG = np.random.default_rng(3)
X = RNG.standard_normal((24, 16))
W = RNG.standard_normal((16, 16)) / 4


def two_layers(x, w):
    return (np.tanh(np.sin(x @ w) @ w) ** 2).sum()


def normalised(x, w):
    h = x @ w
    centred = h - h.sum(-1, keepdims=True) / 16
    scale = np.sqrt((centred * centred).sum(-1, keepdims=True) + 1e-3)
    return (np.sin(centred / scale) * x).sum()


def residual(x, w):
    for _ in range(3):
        x = x + np.tanh(x @ w) * np.exp(-x * x)
    return (x * x).sum()


def softmax(x, w):
    h = x @ w
    shifted = h - h.max(-1, keepdims=True)
    e = np.exp(shifted)
    p = e / e.sum(-1, keepdims=True)
    return (p * np.log(p + 0.1)).sum()


PROGRAMS = [two_layers, normalised, residual, softmax]


def staged_gradient(f):
    return simplify(inline_calls(stax.make_ir(stax.value_and_grad(f, argnums=(0, 1)))(X, W)))


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_program_keeps_every_bit(f):
    graph = staged_gradient(f)
    expected = eval_graph(graph, [X, W])
    for options in (PartitionOptions(), PartitionOptions(chain_limit=2, free_bytes=64)):
        one = rematerialise(graph, options)
        check_graph(one)
        for a, b in zip(eval_graph(one, [X, W]), expected, strict=True):
            assert np.array_equal(a, b)
        merged = cse(one)
        assert len([e for e in merged.eqns if e.region]) == len(
            {(e.op, e.inputs, str(e.params)) for e in merged.eqns if e.region}
        )
        for a, b in zip(eval_graph(merged, [X, W]), expected, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("f", PROGRAMS)
def test_merging_does_not_undo_the_recomputation(f):
    one = rematerialise(staged_gradient(f), PartitionOptions())
    again = [e for e in one.eqns if e.region]
    assert len([e for e in cse(one).eqns if e.region]) == len(again)


@pytest.mark.parametrize("f", PROGRAMS)
def test_no_large_reduction_or_product_is_repeated(f):
    one = rematerialise(staged_gradient(f), PartitionOptions())
    for eqn in one.eqns:
        if eqn.region:
            assert eqn.op not in ("dot_general", "sum", "max")


@pytest.mark.parametrize("f", PROGRAMS)
def test_split_gradient_runs_as_two_graphs(f):
    graph = staged_gradient(f)
    split = split_joint(graph)
    found = partition(split)
    assert split.forward_outputs == (0,)
    outs = eval_graph(found.forward, [X, W])
    primals = [[X, W][k] for k in found.needed_primals]
    gradients = eval_graph(found.backward, [*outs[1:], *primals])
    for a, b in zip([outs[0], *gradients], eval_graph(graph, [X, W]), strict=True):
        assert np.array_equal(a, b)


def test_the_step_after_the_gradient_belongs_to_the_backward_part():
    def step(x, w):
        value, gradient = stax.value_and_grad(two_layers, argnums=1)(x, w)
        return value, w - 0.1 * gradient

    split = split_joint(simplify(stax.make_ir(step)(X, W)))
    assert split.forward_outputs == (0,)
    assert split.gradient_outputs == (1,)
    assert split.backward[-1].op == "sub"


def test_checkpointed_values_are_not_saved():
    def block(x, w):
        return np.sin(np.exp(np.sin(x @ w)) @ w)

    def plain(x, w):
        return block(block(x, w), w).sum()

    def saving(x, w):
        again = stax.checkpoint(block)
        return again(again(x, w), w).sum()

    free = stax.joint_graph(plain, argnums=1)(X, W)
    bound = stax.joint_graph(saving, argnums=1)(X, W)
    check_graph(bound)
    assert len(free.partition().saved) > len(bound.partition().saved)
    # the state between the blocks is all that crosses
    assert bound.partition().saved_bytes <= X.nbytes
    assert any(e.region for e in bound.partition().backward.eqns)
    arguments = [X, W, np.ones(())]
    for a, b in zip(eval_graph(free, arguments), eval_graph(bound, arguments), strict=True):
        assert np.array_equal(a, b)
    one = rematerialise(bound)
    before = [e.op for e in bound.eqns if e.phase == BACKWARD and e.op == "dot_general"]
    after = [e.op for e in one.eqns if e.phase == BACKWARD and e.op == "dot_general"]
    assert len(after) == len(before)


@pytest.mark.parametrize("f", PROGRAMS)
def test_joint_graph_of_a_graph_equals_that_of_the_function(f):
    graph = stax.make_ir(f)(X, W)
    joint = joint_of(graph, (False, True))
    assert joint is joint_of(graph, (False, True))
    direct = stax.joint_graph(f, argnums=1)(X, W)
    arguments = [X, W, np.ones(())]
    for a, b in zip(eval_graph(joint, arguments), eval_graph(direct, arguments), strict=True):
        assert np.array_equal(a, b)


def test_second_order_graphs_partition_again():
    def f(w):
        return (np.sin(X @ w) ** 2).sum()

    def g(w):
        return (stax.grad(f)(w) ** 2).sum()

    joint = stax.joint_graph(g)(W)
    found = joint.partition()
    outs = eval_graph(found.forward, [W])
    primals = [W] * len(found.needed_primals)
    gradients = eval_graph(found.backward, [*outs[1:], *primals, np.ones(())])
    assert np.array_equal(gradients[0], eval_graph(joint, [W, np.ones(())])[1])


def test_types_alone_are_enough():
    shape = stax.ShapeDtypeStruct((24, 16), np.float64)
    joint = stax.joint_graph(two_layers, argnums=1)(shape, W)
    assert joint == stax.joint_graph(two_layers, argnums=1)(X, W)


def test_wrong_argnums_are_named():
    with pytest.raises(stax.errors.StaticArgumentError, match="argnums=2"):
        stax.joint_graph(two_layers, argnums=2)(X, W)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_every_bit_at_every_budget(seed):
    program = random_program(seed)
    check_every_budget(program.fn, program.args)


@pytest.mark.parametrize("seed", range(8050, 8070))
def test_programs_with_loops_keep_every_bit_at_every_budget(seed):
    program = random_program(seed, size=10, rules=MIXED_RULES)
    with np.errstate(all="ignore"):
        check_every_budget(program.fn, program.args)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_an_equation_computed_again_gives_all_its_results(length):
    # The backward part reads the last carry and all of them: both come from one loop.
    def loss(x):
        last = stax.lax.fori_loop(0, length, lambda i, c: np.sin(c) * 0.5, x)
        return np.mean(np.expm1(0.25 * last))

    check_every_budget(loss, (np.array([0.5, 2.0]),))


def check_every_budget(fn, args):
    """Partitions of the gradient are well formed, and their results its bits."""
    joint = stax.joint_graph(fn, tuple(range(len(args))))(*args)
    check_graph(joint)
    assert parse_graph(str(joint)) == joint
    arguments = [*args, np.ones(())]
    expected = eval_graph(joint, arguments)
    for budget in (None, 0.3, 0):
        try:
            found = joint.partition(memory_budget=budget)
        except stax.errors.MemoryBudgetError as error:
            found = joint.partition(memory_budget=error.least)
        check_graph(found.forward)
        check_graph(found.backward)
        outs = eval_graph(found.forward, args)
        primals = [args[k] for k in found.needed_primals]
        gradients = eval_graph(found.backward, [*outs[1:], *primals, np.ones(())])
        for a, b in zip([outs[0], *gradients], expected, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    one = rematerialise(joint, PartitionOptions(chain_limit=3))
    check_graph(one)
    for a, b in zip(eval_graph(one, arguments), expected, strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def test_the_decay_of_optimiser_state_is_not_forward_work():
    def step(x, w, momentum):
        value, gradient = stax.value_and_grad(two_layers, argnums=1)(x, w)
        momentum = 0.9 * momentum + gradient
        return value, w - 0.1 * momentum, momentum

    split = split_joint(simplify(stax.make_ir(step)(X, W, W)))
    assert "mul" not in [e.op for e in split.forward]
    assert split.forward_outputs == (0,)


def test_effects_stay_where_their_operands_are():
    rule = sin_p.impl
    show = Primitive(
        "show_for_test",
        family="effect",
        abstract_eval=lambda *avals: (),
        impl=rule,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
        batch=rule,
        lower=FALLBACK,
        cost=rule,
        recompute=Recompute.EXPENSIVE,
        multi=True,
    )
    del REGISTRY[show.name]
    joint = stax.joint_graph(two_layers, argnums=1)(X, W)
    h = joint.eqns[0].outputs[0]
    gradient = joint.outputs[1]
    shown = joint.replace(eqns=[*joint.eqns, Eqn(show, [h], [], {}), Eqn(show, [gradient], [], {})])
    found = shown.partition()
    assert [e.inputs for e in found.forward.eqns if e.prim is show] == [(h,)]
    assert [e.inputs for e in found.backward.eqns if e.prim is show] == [(gradient,)]
