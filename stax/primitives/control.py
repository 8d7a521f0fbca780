"""Lowering of the rows that carry graphs as loops and branches: one call of nested programs.

Input: the present equation and its operands as lazy tensors.  Output: the results of a call that
the back end prints as a loop or a branch around the programs of the carried graphs.  The rows
themselves stand with the transformations, whose functions their rules are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.loops.construct import full
from stax.loops.lower import Lowering
from stax.loops.tensors import TensorNode


def lower_scan(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Sequence[TensorNode]:
    """A loop over slices; without steps, the carries as they are."""
    eqn = ctx.eqn
    assert eqn is not None
    if params["length"] == 0:
        carry = nodes[params["consts"] : params["consts"] + params["carry"]]
        ys = eqn.outputs[params["carry"] :]
        return (*carry, *(full(v.shape, 0, v.dtype) for v in ys))
    carried = range(params["consts"], params["consts"] + params["carry"])
    return ctx.nested("scan", nodes, (params["body"],), (carried,))


def lower_while(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Sequence[TensorNode]:
    """A loop that tests its condition before each step."""
    body = params["body"]
    carried = range(params["body_consts"], len(body.inputs))
    return ctx.nested("while", nodes, (params["cond"], body), ((), carried))


def lower_cond(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Sequence[TensorNode]:
    """A choice between programs."""
    branches = params["branches"]
    return ctx.nested("cond", nodes, branches, ((),) * len(branches))


def lower_chain(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Sequence[TensorNode]:
    """The reversal of a chain of steps from few snapshots."""
    return ctx.nested("chain", nodes, (params["advance"], params["backward"]), ((), ()))
