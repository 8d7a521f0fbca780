"""Programs that are compiled in one process and run in another, and their arguments."""

from __future__ import annotations

import numpy as np

import stax

RNG = np.random.default_rng(5)
X = RNG.standard_normal((24, 40)).astype(np.float32)
W = RNG.standard_normal((40, 32)).astype(np.float32)


def layer(w, x):
    """A loss of one layer."""
    return stax.nn.softmax(np.tanh(x @ w), axis=-1).max(-1).sum()


PROGRAMS = {
    "gradient": (stax.grad(layer), (W, X)),
    "gather": (lambda x, i: x[i].sum(0), (X, np.array([3, -1, 3]))),
    "scatter": (lambda x, i: stax.at(x)[i].set(x[:3] * 2), (X, np.array([3, -1, 3]))),
    "scan": (lambda x: np.cumsum(x, 1), (X,)),
}


def main() -> None:
    """Compile every program for the device that the fake driver shows."""
    for f, args in PROGRAMS.values():
        stax.jit(f, backend="triton")(*args)


if __name__ == "__main__":
    main()
