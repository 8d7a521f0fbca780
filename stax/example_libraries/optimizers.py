"""Optimisers as triples of functions, under the names of `jax.example_libraries.optimizers`.

Input: a step size or a schedule of them.  Output: `init`, `update` and `get_params`, which act on
trees: each leaf has a state of its own.  `opt_state = init(params)`; then, for each step `i`,
`opt_state = update(i, grads, opt_state)`, and `get_params(opt_state)` gives the parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import stax.numpy as snp
from stax.errors import PytreeError
from stax.pytree import PyTreeDef, tree_flatten, tree_leaves, tree_map, tree_unflatten
from stax.pytree_registry import register_pytree_node_class

__all__ = [
    "Optimizer",
    "OptimizerState",
    "adagrad",
    "adam",
    "adamax",
    "clip_grads",
    "constant",
    "exponential_decay",
    "inverse_time_decay",
    "l2_norm",
    "make_schedule",
    "momentum",
    "nesterov",
    "optimizer",
    "piecewise_constant",
    "polynomial_decay",
    "rmsprop",
    "rmsprop_momentum",
    "sgd",
]

Array = Any
Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """`init_fn(params)`, `update_fn(i, grads, state)` and `params_fn(state)`."""

    init_fn: Callable[[Any], OptimizerState]
    update_fn: Callable[[Any, Any, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Any]


@register_pytree_node_class
class OptimizerState:
    """The state of every leaf, and the structure of the parameters; a pytree."""

    def __init__(self, states: Sequence[Any], tree: PyTreeDef) -> None:
        self.states = tuple(states)
        self.tree = tree

    def tree_flatten(self) -> tuple[tuple[Any, ...], PyTreeDef]:
        """The states, and the structure."""
        return self.states, self.tree

    @classmethod
    def tree_unflatten(cls, tree: PyTreeDef, states: Any) -> OptimizerState:
        """The state of these parts."""
        return cls(states, tree)


def optimizer(opt_maker: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Optimizer]:
    """An optimiser of trees from one of arrays.

    `opt_maker(...)` returns `init(x0)`, `update(i, g, state)` and `get_params(state)` of one array.
    """

    @functools.wraps(opt_maker)
    def maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Any) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            return OptimizerState([init(x) for x in leaves], tree)

        def tree_update(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            leaves, tree = tree_flatten(grads)
            if tree != state.tree:
                raise PytreeError(
                    f"the gradients have structure {tree!r}, the parameters {state.tree!r}"
                )
            new = [update(i, g, s) for g, s in zip(leaves, state.states, strict=True)]
            return OptimizerState(new, tree)

        def tree_params(state: OptimizerState) -> Any:
            return tree_unflatten(state.tree, [get_params(s) for s in state.states])

        return Optimizer(tree_init, tree_update, tree_params)

    return maker


# ----------------------------------------------------------------------------------- optimisers


@optimizer
def sgd(step_size: Any) -> tuple[Any, Any, Any]:
    """Gradient descent.

    >>> init, update, get_params = sgd(0.5)
    >>> get_params(update(0, np.array([2.0]), init(np.array([1.0]))))
    array([0.])
    """
    rate = make_schedule(step_size)
    return lambda x0: x0, lambda i, g, x: x - rate(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> tuple[Any, Any, Any]:
    """Gradient descent with a velocity that keeps the part `mass` of itself."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> tuple[Any, Any, Any]:
    """Momentum that looks ahead (Y. Nesterov, 1983)."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> tuple[Any, Any, Any]:
    """Steps divided by the root of the sum of squares (J. Duchi, E. Hazan, Y. Singer, 2011)."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + snp.square(g)
        seen = squares > 0
        scaled = snp.where(seen, g / snp.sqrt(snp.where(seen, squares, 1.0)), 0.0)
        mean = (1.0 - momentum) * scaled + momentum * mean
        return x - rate(i) * mean, squares, mean

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> tuple[Any, Any, Any]:
    """Steps divided by the root of a running mean of squares."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + snp.square(g) * (1.0 - gamma)
        return x - rate(i) * g / snp.sqrt(squares + eps), squares

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> tuple[Any, Any, Any]:
    """`rmsprop` with a velocity."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares * gamma + snp.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + rate(i) * g / snp.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return _with_zeros(2), update, _first


@optimizer
def adam(
    step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> tuple[Any, Any, Any]:
    """Adam (D. Kingma, J. Ba, 2015)."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * snp.square(g) + b2 * squares
        count = snp.asarray(i + 1, np.float64)
        mean_hat = mean / (1 - b1**count)
        squares_hat = squares / (1 - b2**count)
        step = rate(i) * mean_hat / (snp.sqrt(squares_hat) + eps)
        return _like(x - step, x), _like(mean, x), _like(squares, x)

    return _with_zeros(2), update, _first


@optimizer
def adamax(
    step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> tuple[Any, Any, Any]:
    """Adam with the largest gradient in the place of the mean square (the same paper)."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = snp.maximum(b2 * largest, snp.abs(g))
        count = snp.asarray(i + 1, np.float64)
        step = (rate(i) / (1 - b1**count)) * mean / (largest + eps)
        return _like(x - step, x), mean, largest

    return _with_zeros(2), update, _first


def _with_zeros(count: int) -> Callable[[Array], Any]:
    return lambda x0: (x0, *(snp.zeros_like(x0) for _ in range(count)))


def _first(state: Any) -> Array:
    return state[0]


def _like(value: Array, x: Array) -> Array:
    """`value` in the dtype of `x`: the counter is float64."""
    return snp.asarray(value, snp.asarray(x).dtype)


# ------------------------------------------------------------------------------------ schedules


def constant(step_size: float) -> Schedule:
    """The same step size always."""
    return lambda i: step_size


def exponential_decay(step_size: float, decay_steps: int, decay_rate: float) -> Schedule:
    """`step_size * decay_rate ** (i / decay_steps)`."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Schedule:
    """`step_size / (1 + decay_rate * i / decay_steps)`, the quotient rounded down on demand."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * snp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: float, decay_steps: int, final_step_size: float, power: float = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size` in `decay_steps` steps, by a power of what is left."""

    def schedule(i: Any) -> Any:
        left = 1 - snp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]` after the first `k` of the `boundaries`.

    Raises:
      ValueError: there is not one value more than boundaries.
    """
    bounds, sizes = np.asarray(boundaries), np.asarray(values)
    if bounds.ndim != 1 or sizes.shape != (bounds.size + 1,):
        raise ValueError(
            f"piecewise_constant: {bounds.size} boundaries need {bounds.size + 1} values, "
            f"got {sizes.size}"
        )
    return lambda i: snp.asarray(sizes)[snp.sum(i > bounds)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is, or that of a number."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]  # a function of the caller's
    if np.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"a step size is a number or a function, got {scalar_or_schedule!r}")


# ------------------------------------------------------------------------------------ gradients


def l2_norm(tree: Any) -> Array:
    """The length of all leaves together."""
    return snp.sqrt(sum(snp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: float) -> Any:
    """The gradients, shortened to the length `max_norm` where they are longer."""
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: snp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)
