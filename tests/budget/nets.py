"""Random networks of up to 25 values, and the least work at every limit of memory by trying all."""

from __future__ import annotations

import numpy as np

import stax
from stax.transforms.plan_front import pareto
from stax.transforms.plan_sets import KeptSets
from stax.transforms.plans import Planner
from tests.budget.best import flat, free_values

ROWS = 64


def weight(rng, width, new):
    return (rng.standard_normal((width, new)) / np.sqrt(width)).astype(np.float32)


def random_net(seed):
    """Layers of different widths with products, cheap steps, reductions and skips."""
    rng = np.random.default_rng(seed)
    widths = [8, 16, 32, 64]
    width = first = int(rng.choice(widths))
    ws, layers = [], []
    kinds = rng.choice(["mm", "mm", "tanh", "mul", "skip", "centre"], rng.integers(4, 8))
    for kind in ["mm", *kinds]:
        layers.append((kind, len(ws)))
        if kind == "mm":
            new = int(rng.choice(widths))
            ws.append(weight(rng, width, new))
            width = new

    def f(ws, x):
        seen = [x]
        for kind, k in layers:
            if kind == "mm":
                x = x @ ws[k]
            elif kind == "tanh":
                x = np.tanh(x)
            elif kind == "mul":
                x = x * np.sin(x)
            elif kind == "skip":
                x = x + np.exp(-np.square(next(h for h in seen[::-1] if h.shape == x.shape)))
            else:
                x = x - x.mean(-1, keepdims=True)
            seen.append(x)
        return (x * x).sum()

    return f, (ws, rng.standard_normal((ROWS, first)).astype(np.float32))


def softened(x):
    return stax.nn.softmax(x, -1)


def normed(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-3)


PLAIN = {
    "tanh": np.tanh,
    "soft": softened,
    "both": lambda x: np.concatenate([x, np.sin(x)], -1),
    "half": lambda x: x[:, : max(x.shape[1] // 2, 1)],
    "norm": normed,
    "relu": lambda x: np.maximum(x, 0),
    "bell": lambda x: np.exp(-x * x),
}


def branching_net(seed):
    """Gates, softmax, norms, joins, slices, batched products, and sums of many earlier values."""
    rng = np.random.default_rng(10_000 + seed)
    widths = [4, 8, 16, 32, 64, 128]
    width = first = int(rng.choice(widths))
    ws, layers = [], []
    kinds = rng.choice([*PLAIN, "mm", "gate", "batch", "sum"], rng.integers(3, 9))
    for kind in ["mm", *kinds]:
        layers.append((kind, len(ws)))
        if kind in ("mm", "gate", "batch"):
            new = int(rng.choice(widths))
            ws += [weight(rng, width, new) for _ in range(2 if kind == "gate" else 1)]
            width = new
        elif kind == "both":
            width *= 2
        elif kind == "half":
            width = max(width // 2, 1)

    def f(ws, x):
        seen = [x]
        for kind, k in layers:
            if kind == "mm":
                x = x @ ws[k]
            elif kind == "gate":
                x = np.tanh(x @ ws[k]) * stax.nn.sigmoid(x @ ws[k + 1])
            elif kind == "batch":
                x = (x.reshape(4, -1, x.shape[1]) @ ws[k]).reshape(ROWS, -1)
            elif kind == "sum":
                for h in [h for h in seen[-4:] if h.shape == x.shape]:
                    x = x + h * np.cos(h)
            else:
                x = PLAIN[kind](x)
            seen.append(x)
        return (x * x).sum()

    return f, (ws, rng.standard_normal((ROWS, first)).astype(np.float32))


NETS = {"layers": random_net, "branches": branching_net}


def planner_for(kind, seed):
    return Planner(flat(*NETS[kind](seed)))


def best_of_all(planner, most):
    """The plans that no other beats among all that there are; None where they are too many."""
    found = {}
    sets = KeptSets(planner.model, planner.fixed, free_values(planner), found)
    every = sets.all(most)
    if every is None:
        return None
    for bits in every:
        sets.judge(bits)
    return pareto(found.values())


def worst_ratio(best, found):
    """Work of the plans found over that of the best plans, at the worst limit of memory."""
    worst = 1.0
    for plan in best:
        ours = min((p.work for p in found if p.peak <= plan.peak), default=float("inf"))
        worst = max(worst, (ours + 1) / (plan.work + 1))
    return worst
