"""Solve a differential equation with a network: its residual is made of the network's derivatives.

The heat equation u_t = u_xx / π² on the unit square with u(x, 0) = sin πx.  Second derivatives are
`grad` of `grad` of a scalar network, mapped over the points; the exact solution gives the error.

    python examples/physics_informed.py
"""

import argparse
import time
from itertools import pairwise

import numpy as np

import stax

WIDTHS = (2, 32, 32, 1)
POINTS = 256
RATE = 3e-3


def initial_parameters(rng):
    return [
        {"w": rng.normal(size=(m, n)) / np.sqrt(m), "b": np.zeros(n)} for m, n in pairwise(WIDTHS)
    ]


def solution(parameters, x, t):
    """u(x, t) for numbers x and t; it meets the initial and the boundary values by construction."""
    h = np.stack([x, t])
    *hidden, last = parameters
    for layer in hidden:
        h = np.tanh(h @ layer["w"] + layer["b"])
    free = (h @ last["w"] + last["b"])[0]
    return np.sin(np.pi * x) + t * x * (1 - x) * free


def residual(parameters, x, t):
    """u_t - u_xx / π² at one point."""
    u_t = stax.grad(solution, argnums=2)(parameters, x, t)
    u_xx = stax.grad(stax.grad(solution, argnums=1), argnums=1)(parameters, x, t)
    return u_t - u_xx / np.pi**2


def loss(parameters, x, t):
    """The mean square of the residual over the points."""
    return np.mean(stax.vmap(residual, in_axes=(None, 0, 0))(parameters, x, t) ** 2)


@stax.jit
def train_step(parameters, state, rate, x, t):
    """One step of Adam."""
    value, gradient = stax.value_and_grad(loss)(parameters, x, t)
    count, mean, square = state
    count = count + 1
    mean = stax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = stax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    scale = rate * np.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    parameters = stax.tree.map(
        lambda p, m, s: p - scale * m / (np.sqrt(s) + 1e-8), parameters, mean, square
    )
    return parameters, (count, mean, square), value


def largest_error(parameters):
    """The largest difference from exp(-t) sin πx on a grid."""
    x, t = np.meshgrid(np.linspace(0, 1, 65), np.linspace(0, 1, 65))
    found = stax.vmap(solution, in_axes=(None, 0, 0))(parameters, x.ravel(), t.ravel())
    return float(np.abs(found - (np.exp(-t) * np.sin(np.pi * x)).ravel()).max())


def main(steps=3000):
    rng = np.random.default_rng(0)
    parameters = initial_parameters(rng)
    zeros = stax.tree.map(np.zeros_like, parameters)
    state = 0.0, zeros, zeros

    start = time.perf_counter()
    for step in range(steps + 1):
        if step == 1:
            print(f"first step {time.perf_counter() - start:.2f} s, compilation included")
            start = time.perf_counter()
        if step % (steps // 6) == 0:
            error = largest_error(parameters)
            print(f"step {step:5d}  largest error {error:.1e}", end="")
        x, t = rng.uniform(size=(2, POINTS))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        parameters, state, value = train_step(parameters, state, rate, x, t)
        if step % (steps // 6) == 0:
            print(f"  mean square residual {value:.1e}")
    print(f"{steps / (time.perf_counter() - start):,.0f} steps a second")
    print(f"largest error of the solution {error:.1e}")
    return error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000)
    main(parser.parse_args().steps)
