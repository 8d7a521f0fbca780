"""Classify digits by a layer that is defined by an equation: z = tanh(W z + U x + b).

A deep equilibrium model (Bai, Kolter and Koltun, 2019).  A loop of unknown length, which has no
reverse derivative, finds z; `lax.custom_root` gets the gradient from the equation alone.

    python examples/equilibrium.py
"""

import time

import numpy as np
from sklearn.datasets import load_digits

import stax
from stax import lax

WIDTH, BATCH, RATE = 64, 128, 0.1


def split_digits(rng):
    """1437 images to train on and 360 to test on, and their labels."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    x, y = images[order] / 16, labels[order]
    return x[:1437], y[:1437], x[1437:], y[1437:]


def initial_parameters(rng):
    def weights(m, n):
        return rng.normal(size=(m, n)) / np.sqrt(m)

    inner = {"w": weights(WIDTH, WIDTH), "u": weights(64, WIDTH), "b": np.zeros(WIDTH)}
    return {**inner, "v": weights(WIDTH, 10)}


def layer(parameters, z, x):
    """One application; columns of W are kept short, so that it brings any two z closer."""
    w = parameters["w"] * np.minimum(1, 0.9 / np.abs(parameters["w"]).sum(0))
    return np.tanh(z @ w + x @ parameters["u"] + parameters["b"])


def repeat_until_still(step, z, tolerance=1e-9):
    """The fixed point of `step`."""

    def moving(pair):
        return np.abs(pair[0] - pair[1]).max() > tolerance

    return lax.while_loop(moving, lambda pair: (step(pair[0]), pair[0]), (step(z), z))[0]


def find_root(f, z):
    return repeat_until_still(lambda z: z - f(z), z)


def solve_linear(g, y):
    """The x with g(x) = y, for a linear g near the identity."""

    def solve(matvec, b):
        return repeat_until_still(lambda x: x + b - matvec(x), b)

    return lax.custom_linear_solve(g, y, solve, transpose_solve=solve)


def equilibrium(parameters, x):
    """The z that the layer maps to itself, for each row of x."""
    start = np.zeros((len(x), WIDTH))
    return lax.custom_root(lambda z: z - layer(parameters, z, x), start, find_root, solve_linear)


def unrolled(parameters, x, steps=200):
    """The same by a fixed number of steps that are all differentiated."""
    start = np.zeros((len(x), WIDTH))
    return lax.fori_loop(0, steps, lambda _, z: layer(parameters, z, x), start)


def loss(parameters, x, y, features=equilibrium):
    """Mean cross entropy."""
    scores = stax.nn.log_softmax(features(parameters, x) @ parameters["v"])
    return -scores[np.arange(len(y)), y].mean()


@stax.jit
def train_step(parameters, velocity, x, y):
    value, gradient = stax.value_and_grad(loss)(parameters, x, y)
    velocity = stax.tree.map(lambda v, g: 0.9 * v - RATE * g, velocity, gradient)
    return stax.tree.map(np.add, parameters, velocity), velocity, value


def gradient_difference(parameters, x, y):
    """How far the implicit gradient is from that through the unrolled steps."""
    implicit = stax.jit(stax.grad(loss))(parameters, x, y)
    direct = stax.jit(stax.grad(lambda *a: loss(*a, unrolled)))(parameters, x, y)
    pairs = zip(stax.tree.leaves(implicit), stax.tree.leaves(direct))
    return float(max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs))


def main(epochs=20):
    rng = np.random.default_rng(0)
    x, y, x_test, y_test = split_digits(rng)
    parameters = initial_parameters(rng)
    velocity = stax.tree.map(np.zeros_like, parameters)
    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        batches = np.split(rng.permutation(len(x))[: len(x) // BATCH * BATCH], len(x) // BATCH)
        for rows in batches:
            parameters, velocity, value = train_step(parameters, velocity, x[rows], y[rows])
            total += value
        seconds = time.perf_counter() - start
        print(f"epoch {epoch:3d}  loss {total / len(batches):.4f}  {seconds:.2f} s")
    difference = gradient_difference(parameters, x[:BATCH], y[:BATCH])
    scores = stax.jit(lambda p, x: equilibrium(p, x) @ p["v"])(parameters, x_test)
    accuracy = float(np.mean(scores.argmax(1) == y_test))
    print(f"implicit and unrolled gradients differ by {difference:.1e}")
    print(f"test accuracy {accuracy:.1%}")
    return accuracy, difference


if __name__ == "__main__":
    main()
