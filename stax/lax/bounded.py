"""`while_loop` with a bound on its steps: nested scans of fixed lengths that can be run backwards.

Input: the graphs of a condition and a body, the bound, and how many carries may be kept.  Output:
the plain loop and the nested scans, as graphs of the same inputs.  The scans form a tree: each of
`depth` levels runs the one below it `width` times, unless the condition has failed.  A level keeps
the carry at each of its turns and computes everything below again: `depth * width` carries are
alive at once, however many steps there are, and no step is computed more than `depth + 1` times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.graph import Graph
from stax.core.source import user_source
from stax.core.staging import eval_graph, stage
from stax.core.trace import bind
from stax.errors import StaticArgumentError
from stax.lax.branches import cond
from stax.lax.staged import Staged
from stax.primitives.elementwise import add, logical_and, lt
from stax.primitives.families import literal
from stax.transforms.control_bounded import bounded_while_p

Loop = Callable[..., Any]


def tree_shape(max_steps: int, slots: int | None) -> tuple[int, int]:
    """Depth and width of the tree for a bound, with at most so many carries alive at once.

    Without `slots` the tree has two levels.

    Raises:
      StaticArgumentError: no tree keeps so few carries.
    """
    shapes = [(d, _root(max_steps, d)) for d in range(1, max(max_steps.bit_length(), 1) + 1)]
    if slots is None:
        return shapes[min(1, len(shapes) - 1)]
    for depth, width in shapes:
        if depth * width <= slots:
            return depth, width
    least = min(d * w for d, w in shapes)
    raise StaticArgumentError(
        f"while_loop: slots={slots} are too few for max_steps={max_steps}; {least} are enough",
        where=user_source() or None,
    )


def _root(n: int, degree: int) -> int:
    """The least whole number whose power is at least `n`, and at least 1."""
    k = max(int(float(n) ** (1.0 / degree)) - 1, 1)
    while k**degree < n:
        k += 1
    return k


def checked_bound(max_steps: Any, slots: Any) -> tuple[int, int]:
    """The shape of the tree, when the arguments make sense.

    Raises:
      StaticArgumentError: they are not whole numbers of at least 1, or there are too few slots.
    """
    for name, value in (("max_steps", max_steps), ("slots", 1 if slots is None else slots)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < 1:
            raise StaticArgumentError(
                f"while_loop: {name}={value!r} is not a whole number of at least 1",
                where=user_source() or None,
            )
    return tree_shape(int(max_steps), None if slots is None else int(slots))


def bounded_loop(
    test: Staged,
    body: Staged,
    values: Sequence[Any],
    max_steps: int,
    shape: tuple[int, int],
    loops: tuple[Loop, Loop],
) -> Sequence[Any]:
    """The carry of a bounded loop; `loops` are `while_loop` and `scan`."""
    while_loop, scan = loops
    nc, nb = len(test.consts), len(body.consts)
    avals = [*test.graph.in_avals[:nc], *body.graph.in_avals]
    depth, width = shape
    start = np.int64(0)

    def parts(args: Sequence[Any]) -> tuple[Loop, Loop, tuple[Any, ...]]:
        of_test, of_body, carry = args[:nc], args[nc : nc + nb], tuple(args[nc + nb :])

        def going(state: Any) -> Any:
            i, carry = state
            holds = eval_graph(test.graph, [*of_test, *carry])[0]
            return logical_and(lt(i, literal(max_steps, i)), holds)

        def step(state: Any) -> Any:
            i, carry = state
            return add(i, literal(1, i)), tuple(eval_graph(body.graph, [*of_body, *carry]))

        return going, step, carry

    def plain(*args: Any) -> list[Any]:
        going, step, carry = parts(args)
        return list(while_loop(going, step, (start, carry))[1])

    def nested(*args: Any) -> list[Any]:
        going, step, carry = parts(args)

        def level(k: int) -> Loop:
            inner = step if k == 0 else turns(k)
            return lambda state: cond(going(state), inner, lambda s: s, state)

        def turns(k: int) -> Loop:
            one = level(k - 1)

            def run(state: Any) -> Any:
                again = lambda state, _: (one(state), None)
                return scan(again, state, None, width, checkpoint="all")[0]

            return run

        return list(turns(depth)((start, carry))[1])

    name = body.graph.name
    graphs: dict[str, Graph] = {
        "graph": stage(plain, avals, name=name),
        "tree": stage(nested, avals, name=name),
    }
    return bind(bounded_while_p, *test.consts, *body.consts, *values, **graphs)
