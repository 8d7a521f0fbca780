"""Learn to learn: starting weights from which one gradient step fits a new sine wave.

Model-agnostic meta-learning (Finn, Abbeel and Levine, 2017).  The meta-loss contains a gradient
step, so its gradient is a derivative of a derivative; `vmap` runs all tasks of a step at once.

    python examples/maml.py
"""

import argparse
import time
from itertools import pairwise

import numpy as np

import stax

WIDTHS = (1, 40, 40, 1)
TASKS = 25
SHOTS = 10
INNER_RATE = 0.01
RATE = 2e-3


def sample_tasks(rng, count):
    """For each task points to adapt to and points to be judged on, of one sine wave."""
    amplitude, phase = rng.uniform(0.1, 5, (count, 1)), rng.uniform(0, np.pi, (count, 1))
    x = rng.uniform(-5, 5, (count, 2 * SHOTS))
    y = amplitude * np.sin(x - phase)
    x, y = x.astype(np.float32), y.astype(np.float32)
    return x[:, :SHOTS], y[:, :SHOTS], x[:, SHOTS:], y[:, SHOTS:]


def initial_parameters(rng):
    layers = []
    for m, n in pairwise(WIDTHS):
        w = rng.standard_normal((m, n), np.float32) * np.float32(np.sqrt(2 / m))
        layers.append({"w": w, "b": np.zeros(n, np.float32)})
    return layers


def network(parameters, x):
    h = x[:, None]
    *hidden, last = parameters
    for layer in hidden:
        h = np.maximum(h @ layer["w"] + layer["b"], 0)
    return (h @ last["w"] + last["b"])[:, 0]


def loss(parameters, x, y):
    return np.mean((network(parameters, x) - y) ** 2)


def adapted(parameters, x, y, steps=1):
    """The parameters after a few steps of gradient descent on one task."""
    for _ in range(steps):
        gradient = stax.grad(loss)(parameters, x, y)
        parameters = stax.tree.map(lambda p, g: p - INNER_RATE * g, parameters, gradient)
    return parameters


def loss_after(parameters, task, steps):
    """The loss on the second half of a task after adaptation to its first half."""
    x, y, x_new, y_new = task
    return loss(adapted(parameters, x, y, steps), x_new, y_new)


def mean_loss_after(parameters, tasks, steps):
    each = stax.vmap(lambda *task: loss_after(parameters, task, steps))
    return np.mean(each(*tasks))


@stax.jit
def train_step(parameters, state, tasks):
    """One step of Adam on the meta-loss."""
    value, gradient = stax.value_and_grad(mean_loss_after)(parameters, tasks, 1)
    count, mean, square = state
    count = count + 1
    mean = stax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = stax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
    scale = RATE * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    parameters = stax.tree.map(
        lambda p, m, s: p - scale * m / (np.sqrt(s) + 1e-8), parameters, mean, square
    )
    return parameters, (count, mean, square), value


def main(steps=4000):
    rng = np.random.default_rng(0)
    parameters = initial_parameters(rng)
    zeros = stax.tree.map(np.zeros_like, parameters)
    state = np.float32(0), zeros, zeros

    start, recent = time.perf_counter(), []
    for step in range(1, steps + 1):
        parameters, state, value = train_step(parameters, state, sample_tasks(rng, TASKS))
        recent.append(value)
        if step == 1:
            print(f"first step {time.perf_counter() - start:.2f} s, compilation included")
            start = time.perf_counter()
        if step % (steps // 8) == 0:
            print(f"step {step:5d}  loss after adaptation {np.mean(recent):.3f}")
            recent = []
    print(f"{(steps - 1) / (time.perf_counter() - start):,.0f} steps a second")

    tasks = sample_tasks(np.random.default_rng(1), 200)
    judge = stax.jit(mean_loss_after, static_argnums=2)
    losses = {count: float(judge(parameters, tasks, count)) for count in (0, 1, 5)}
    for count, value in losses.items():
        print(f"200 new waves, loss after {count} steps of descent {value:.3f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=4000)
    main(parser.parse_args().steps)
