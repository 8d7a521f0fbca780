"""Train with per-example gradients, each clipped before they are added and noise is put on top.

Differentially private descent (Abadi et al., 2016) on breast-cancer data.  The gradient of one
example is `grad`, that of a batch `vmap(grad)`: no loop over examples, and one compiled step.

    python examples/private_gradients.py
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer

import stax
from stax import random

BATCH = 64
CLIP = 1.0
NOISE = 0.8
RATE = 0.5


def split_data(rng):
    """400 tumours to train on and 169 to test on, standardised; labels 0 and 1."""
    x, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(x))
    x = ((x - x.mean(0)) / x.std(0))[order].astype(np.float32)
    y = y[order].astype(np.float32)
    return x[:400], y[:400], x[400:], y[400:]


def initial_parameters(rng):
    w = rng.standard_normal((30, 16), np.float32) / np.float32(np.sqrt(30))
    v = rng.standard_normal(16, np.float32) / 4
    return {"w": w, "b": np.zeros(16, np.float32), "v": v, "c": np.float32(0)}


def score(parameters, x):
    return np.tanh(x @ parameters["w"] + parameters["b"]) @ parameters["v"] + parameters["c"]


def loss(parameters, x, y):
    """Cross entropy of one example."""
    z = score(parameters, x)
    return np.logaddexp(0, z) - y * z


def clipped_gradient(parameters, x, y):
    """The gradient of one example, no longer than CLIP."""
    gradient = stax.grad(loss)(parameters, x, y)
    length = np.sqrt(sum((g**2).sum() for g in stax.tree.leaves(gradient)))
    scale = np.minimum(1, CLIP / np.maximum(length, 1e-12))
    return stax.tree.map(lambda g: g * scale, gradient), length


@stax.jit
def train_step(parameters, key, x, y):
    """New parameters, and the lengths of the examples' gradients before clipping."""
    gradients, lengths = stax.vmap(clipped_gradient, in_axes=(None, 0, 0))(parameters, x, y)
    leaves, tree = stax.tree.flatten(gradients)
    keys = random.split(key, len(leaves))
    noisy = [
        (g.sum(0) + NOISE * CLIP * random.normal(k, g.shape[1:], np.float32)) / len(x)
        for g, k in zip(leaves, keys)
    ]
    new = stax.tree.map(lambda p, g: p - RATE * g, parameters, stax.tree.unflatten(tree, noisy))
    return new, lengths


def check_against_loop(parameters, x, y):
    """The largest difference between `vmap(grad)` and a Python loop, with both timings."""
    batched = stax.jit(stax.vmap(stax.grad(loss), in_axes=(None, 0, 0)))
    batched(parameters, x, y)
    start = time.perf_counter()
    found = batched(parameters, x, y)
    middle = time.perf_counter()
    each = [stax.grad(loss)(parameters, a, b) for a, b in zip(x, y)]
    end = time.perf_counter()
    print(f"{len(x)} gradients: {1e3 * (middle - start):.2f} ms by jit(vmap(grad)), ", end="")
    print(f"{1e3 * (end - middle):.2f} ms by a loop")
    stacked = stax.tree.map(lambda *g: np.stack(g), *each)
    differences = stax.tree.map(lambda a, b: np.abs(a - b).max(), found, stacked)
    return float(max(stax.tree.leaves(differences)))


def main(steps=300):
    rng = np.random.default_rng(0)
    x, y, x_test, y_test = split_data(rng)
    parameters = initial_parameters(rng)
    difference = check_against_loop(parameters, x[:BATCH], y[:BATCH])
    print(f"largest difference between them {difference:.1e}")
    for step, key in enumerate(random.split(random.PRNGKey(0), steps), 1):
        rows = rng.choice(len(x), BATCH, replace=False)
        parameters, lengths = train_step(parameters, key, x[rows], y[rows])
        if step % (steps // 6) == 0:
            mean = np.mean(loss(parameters, x, y))
            print(f"step {step:4d}  loss {mean:.4f}  clipped {np.mean(lengths > CLIP):.0%}")
    accuracy = float(np.mean((score(parameters, x_test) > 0) == y_test))
    print(f"test accuracy {accuracy:.1%}")
    return accuracy, difference


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    main(parser.parse_args().steps)
