"""Train a network on handwritten digits with one jitted train step.

The loss and the optimiser below are plain NumPy.  `stax.jit` compiles one whole step (forward,
backward and Adam's update) into one native program, and the objects it was made of say how many
kernels that took, what the forward part saves for the backward part, and what is recomputed.

    python examples/digits.py
"""

import argparse
import itertools
import time

import numpy as np
from sklearn.datasets import load_digits

import stax

WIDTHS = (64, 128, 128, 10)
BATCH = 64
RATE = 2e-3


def split_digits(rng):
    """1437 images to train on and 360 to test on: pixels in [0, 1], labels one-hot."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    x = (images[order] / 16).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[labels[order]]
    return x[:1437], y[:1437], x[1437:], y[1437:]


def initial_parameters(rng):
    """A list of layers, each with weights and biases."""
    layers = []
    for m, n in itertools.pairwise(WIDTHS):
        w = rng.standard_normal((m, n), np.float32) * np.float32(np.sqrt(2 / m))
        layers.append({"w": w, "b": np.zeros(n, np.float32)})
    return layers


def logits(parameters, x):
    """Ten scores for each image."""
    *hidden, last = parameters
    for layer in hidden:
        h = x @ layer["w"] + layer["b"]
        x = h / (1 + np.exp(-h))
    return x @ last["w"] + last["b"]


def loss(parameters, x, y):
    """Mean cross entropy."""
    z = logits(parameters, x)
    z = z - z.max(axis=1, keepdims=True)
    return (np.log(np.exp(z).sum(axis=1)) - (z * y).sum(axis=1)).mean()


def train_step(parameters, state, x, y):
    """One step of Adam: new parameters, new state, and the loss before the step."""
    value, gradient = stax.value_and_grad(loss)(parameters, x, y)
    count, mean, square = state
    count = count + 1
    mean = stax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = stax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
    rate = RATE * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    parameters = stax.tree.map(
        lambda p, m, s: p - rate * m / (np.sqrt(s) + 1e-8), parameters, mean, square
    )
    return parameters, (count, mean, square), value


def steps_per_second(step, arguments):
    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + 1:
        step(*arguments)
        count += 1
    return count / (time.perf_counter() - start)


def main(epochs=30):
    rng = np.random.default_rng(0)
    x, y, x_test, y_test = split_digits(rng)
    parameters = initial_parameters(rng)
    zeros = stax.tree.map(np.zeros_like, parameters)
    state = (np.float32(0), zeros, zeros)

    step = stax.jit(train_step)
    start = time.perf_counter()
    step(parameters, state, x[:BATCH], y[:BATCH])
    first_call = time.perf_counter() - start

    for epoch in range(1, epochs + 1):
        order, total = rng.permutation(len(x)), 0.0
        batches = [order[k : k + BATCH] for k in range(0, len(x) - BATCH + 1, BATCH)]
        for rows in batches:
            parameters, state, value = step(parameters, state, x[rows], y[rows])
            total += value
        if epoch % 5 == 0 or epoch == 1:
            print(f"epoch {epoch:3d}  loss {total / len(batches):.4f}")
    accuracy = np.mean(logits(parameters, x_test).argmax(1) == y_test.argmax(1))

    arguments = parameters, state, x[:BATCH], y[:BATCH]
    lowered = step.lower(*arguments)
    plan = lowered.partition
    print(f"test accuracy       {accuracy:.1%}")
    print(f"steps per second    {steps_per_second(step, arguments):,.0f} jitted")
    print(f"                    {steps_per_second(train_step, arguments):,.0f} un-jitted")
    print(f"first call          {first_call:.2f} s, compilation included")
    print(f"kernels             {len(lowered.kernels)}, fallbacks {len(lowered.fallbacks)}")
    print(f"saved for backward  {plan.saved_bytes:,} bytes:", *(f"{v};" for v in plan.saved))
    print("recomputed there   ", *(f"{v};" for v in plan.recomputed))
    return float(accuracy), lowered


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    main(parser.parse_args().epochs)
