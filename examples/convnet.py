"""Train a convolutional network on handwritten digits.

Two convolutions with max pooling between them, written with `stax.lax`, under one jitted step of
gradient descent with momentum; the test accuracy is the figure.

    python examples/convnet.py
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits

import stax
from stax import lax

BATCH = 64
RATE = 0.05


def split_digits(rng):
    """1437 images to train on and 360 to test on, each 1 x 8 x 8, and their labels."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    x = (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    y = labels[order]
    return x[:1437], y[:1437], x[1437:], y[1437:]


def initial_parameters(rng):
    def weights(*shape):
        fan_in = np.prod(shape[1:])
        return rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))

    return {
        "first": {"w": weights(16, 1, 3, 3), "b": np.zeros((16, 1, 1), np.float32)},
        "second": {"w": weights(32, 16, 3, 3), "b": np.zeros((32, 1, 1), np.float32)},
        "last": {"w": weights(10, 32 * 4), "b": np.zeros(10, np.float32)},
    }


def convolved(layer, x):
    """Images (N, C, H, W) convolved with 3 x 3 kernels, rectified and pooled by two."""
    h = lax.conv_general_dilated(x, layer["w"], window_strides=(1, 1), padding="SAME")
    h = np.maximum(h + layer["b"], 0)
    return lax.reduce_window(h, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def logits(parameters, x):
    """Ten scores for each image."""
    h = convolved(parameters["second"], convolved(parameters["first"], x))
    return h.reshape(len(x), -1) @ parameters["last"]["w"].T + parameters["last"]["b"]


def loss(parameters, x, y):
    """Mean cross entropy."""
    return -stax.nn.log_softmax(logits(parameters, x))[np.arange(len(y)), y].mean()


@stax.jit
def train_step(parameters, velocity, x, y):
    value, gradient = stax.value_and_grad(loss)(parameters, x, y)
    velocity = stax.tree.map(lambda v, g: 0.9 * v - RATE * g, velocity, gradient)
    return stax.tree.map(np.add, parameters, velocity), velocity, value


def main(epochs=12):
    rng = np.random.default_rng(0)
    x, y, x_test, y_test = split_digits(rng)
    parameters = initial_parameters(rng)
    velocity = stax.tree.map(np.zeros_like, parameters)
    scores = stax.jit(logits)

    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        order = rng.permutation(len(x))
        batches = [order[k : k + BATCH] for k in range(0, len(x) - BATCH + 1, BATCH)]
        for rows in batches:
            parameters, velocity, value = train_step(parameters, velocity, x[rows], y[rows])
            total += value
        seconds = time.perf_counter() - start
        print(f"epoch {epoch:3d}  loss {total / len(batches):.4f}  {seconds:.2f} s")
    accuracy = np.mean(scores(parameters, x_test).argmax(1) == y_test)
    print(f"test accuracy {accuracy:.1%}")
    return float(accuracy)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=12)
    main(parser.parse_args().epochs)
