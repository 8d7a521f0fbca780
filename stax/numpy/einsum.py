"""einsum on traced values: subscripts to a sequence of `dot_general` contractions.

Input: the subscripts (either of NumPy's forms) and the operands.  Output: for two operands one
contraction; for more, pairs in the order `numpy.einsum_path` finds.  Repeated labels in one
operand become a diagonal first; labels that only one operand has and the output lacks are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import ARRAY_FUNCTIONS
from stax.errors import ShapeError
from stax.numpy.manipulation import diagonal_view, permuted
from stax.numpy.precision import with_precision
from stax.numpy.promotion import asarray_dtype, coerce
from stax.numpy.registration import (
    converted,
    deliver,
    implements,
    operand,
    refuse_unread,
    strong,
)
from stax.numpy.ufunc_rules import multiply
from stax.primitives.contractions import dot_general
from stax.primitives.views import reduce_sum, reshape, transpose

__all__ = [
    "einsum",
    "einsum_path",
]

Array = Any
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _fail(message: str) -> ShapeError:
    return ShapeError(message, op="einsum", where=user_source() or None)


def _as_text(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts as text, from either of NumPy's calling forms."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    arrays, terms = [], []
    items = list(operands)
    output = items.pop() if len(items) % 2 else None
    for k in range(0, len(items), 2):
        arrays.append(items[k])
        terms.append(_term(items[k + 1]))
    text = ",".join(terms)
    return (text if output is None else f"{text}->{_term(output)}"), arrays


def _term(labels: Sequence[Any]) -> str:
    return "".join("..." if x is Ellipsis else _LETTERS[x] for x in labels)


def parsed_terms(text: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, ellipses spelled out.

    Raises:
      ShapeError: the subscripts do not describe operands of these ranks.
    """
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise _fail(f"{text!r} describes {len(terms)} operands, {len(ranks)} were given")
    unused = [c for c in _LETTERS if c not in text]
    widest = 0
    for term, rank in zip(terms, ranks, strict=True):
        plain = term.replace("...", "")
        if "..." in term:
            widest = max(widest, rank - len(plain))
        if rank < len(plain) or ("..." not in term and rank != len(plain)):
            raise _fail(f"subscripts {term!r} do not fit an operand of {rank} dimensions")
    spare = "".join(unused[:widest])
    spelled = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", spare[widest - count :] if count else ""))
    if arrow:
        output = right.replace("...", spare)
    else:
        joined = "".join(spelled)
        output = spare + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in spare)
        )
    for c in output:
        if output.count(c) != 1 or not any(c in t for t in spelled):
            raise _fail(f"output label {c!r} appears twice or in no operand of {text!r}")
    return spelled, output


def _without_repeats(x: Array, term: str) -> tuple[Array, str]:
    """Take diagonals until every label of the term occurs once."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise _fail(f"label {c!r} has extents {x.shape[i]} and {x.shape[j]}")
            x = diagonal_view(x, 0, i, j, writable=True)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + c
    return x, term


def _summed_out(x: Array, term: str, keep: str) -> tuple[Array, str]:
    axes = [k for k, c in enumerate(term) if c not in keep]
    return reduce_sum(x, axes), "".join(c for c in term if c in keep)


def contracted(x: Array, a: str, y: Array, b: str, keep: str) -> tuple[Array, str]:
    """The product of two operands summed over the labels that are not kept."""
    x, a = _summed_out(x, a, keep + b)
    y, b = _summed_out(y, b, keep + a)
    # A label of extent one on one side broadcasts: that side's axis is dropped.
    for c in [c for c in a if c in b]:
        n, m = x.shape[a.index(c)], y.shape[b.index(c)]
        if n != m and n == 1:
            x, a = reshape(x, [s for k, s in enumerate(x.shape) if a[k] != c]), a.replace(c, "")
        elif n != m and m == 1:
            y, b = reshape(y, [s for k, s in enumerate(y.shape) if b[k] != c]), b.replace(c, "")
        elif n != m:
            raise _fail(f"label {c!r} has extents {n} and {m}")
    x, a = _summed_out(x, a, keep + b)
    y, b = _summed_out(y, b, keep + a)
    shared = [c for c in a if c in b]
    batch = [c for c in shared if c in keep]
    summed = [c for c in shared if c not in keep]
    out = "".join(batch) + "".join(c for c in a if c not in shared)
    out += "".join(c for c in b if c not in shared)
    if not summed:
        return _multiplied(x, a, y, b, out), out
    numbers = (
        ([a.index(c) for c in summed], [b.index(c) for c in summed]),
        ([a.index(c) for c in batch], [b.index(c) for c in batch]),
    )
    return dot_general(x, y, numbers), out


def _multiplied(x: Array, a: str, y: Array, b: str, out: str) -> Array:
    def aligned(v: Array, term: str) -> Array:
        order = [c for c in out if c in term]
        v = transpose(v, [term.index(c) for c in order])
        return reshape(v, [v.shape[order.index(c)] if c in term else 1 for c in out])

    return multiply(aligned(x, a), aligned(y, b))


def _einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **kwargs: Any
) -> Array:
    refuse_unread("einsum", kwargs)
    text, given = _as_text(operands)
    arrays = [strong(v) for v in coerce(*(operand(v, "einsum") for v in given))]
    if dtype is not None:
        arrays = [converted(v, asarray_dtype(dtype)) for v in arrays]
    terms, output = parsed_terms(text, [len(v.shape) for v in arrays])
    pairs = [_without_repeats(v, t) for v, t in zip(arrays, terms, strict=True)]
    for positions in _order(pairs, output):
        chosen = [pairs.pop(p) for p in sorted(positions, reverse=True)][::-1]
        keep = output + "".join(t for _, t in pairs)
        (x, a), *rest = chosen
        for k, (y, b) in enumerate(rest):
            later = keep + "".join(t for _, t in rest[k + 1 :])
            x, a = contracted(x, a, y, b, later)
        pairs.append((x, a))
    x, a = pairs[0]
    if len(a) > len(output):
        x, a = _summed_out(x, a, output)
    # A view where nothing was summed or multiplied, as NumPy's.
    return deliver(permuted(x, [a.index(c) for c in output]), out, "einsum")


def _order(pairs: Sequence[tuple[Array, str]], output: str) -> list[tuple[int, ...]]:
    if len(pairs) < 3:
        return [(0, 1)] if len(pairs) == 2 else []
    text = ",".join(t for _, t in pairs) + "->" + output
    shapes = [np.broadcast_to(np.float32(0), aval_of(v).shape) for v, _ in pairs]
    path, _ = np.einsum_path(text, *shapes, optimize="greedy")
    return [tuple(p) for p in path[1:]]


@with_precision
@implements(np.einsum, halves=True)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Array:
    """Sums of products by labelled axes; as `numpy.einsum`."""
    return _einsum(*operands, out=out, optimize=optimize, **kwargs)


def einsum_path(*operands: Any, optimize: Any = "greedy") -> Any:
    """The order in which `einsum` would contract; as `numpy.einsum_path`."""
    text, given = _as_text(operands)
    shapes = [np.broadcast_to(np.float32(0), aval_of(operand(v, "einsum")).shape) for v in given]
    return np.einsum_path(text, *shapes, optimize=optimize)


ARRAY_FUNCTIONS[np.einsum_path] = einsum_path
