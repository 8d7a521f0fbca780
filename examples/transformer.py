"""Train a small transformer to continue text, on Python's own language reference.

The text is what `help("topics")` reads, which every Python carries.  Attention, layer norms and
Adam are plain NumPy; the figure is the loss on held-out text, next to that of letter pairs.

    python examples/transformer.py [steps]
"""

import sys
import time
from pydoc_data.topics import topics

import numpy as np

import stax
from stax import lax, random

WIDTH, HEADS, LAYERS, CONTEXT, BATCH, RATE = 64, 4, 2, 32, 16, 3e-3


def load_text():
    """The topics as numbers of characters, and the characters."""
    text = " ".join("\n".join(topics[name] for name in sorted(topics)).split())
    characters, codes = np.unique(list(text.encode("ascii", "ignore")), return_inverse=True)
    return codes, bytes(characters.tolist()).decode()


def initial_parameters(rng, size):
    def weights(m, n):
        return rng.standard_normal((m, n), np.float32) * np.float32(0.7 / np.sqrt(m))

    shapes = [("qkv", (1, 3)), ("out", (1, 1)), ("up", (1, 4)), ("down", (4, 1))]
    blocks = [{k: weights(m * WIDTH, n * WIDTH) for k, (m, n) in shapes} for _ in range(LAYERS)]
    tables = {"letter": weights(size, WIDTH), "place": weights(CONTEXT, WIDTH)}
    return {**tables, "blocks": blocks, "last": weights(WIDTH, size)}


def normalised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(block, x):
    """Every position of (B, T, C) averages over the positions up to itself."""
    b, t, c = x.shape
    q, k, v = np.moveaxis((x @ block["qkv"]).reshape(b, t, 3, HEADS, c // HEADS), 2, 0)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(c // HEADS))
    past = np.tril(np.ones((t, t), bool))
    weight = stax.nn.softmax(np.where(past, scores, np.float32(-1e9)))
    return np.einsum("bhqk,bkhd->bqhd", weight, v).reshape(b, t, c) @ block["out"]


def logits(parameters, codes):
    """Scores of the next character after each of (B, T) characters."""
    x = parameters["letter"][codes] + parameters["place"]
    for block in parameters["blocks"]:
        x = x + attention(block, normalised(x))
        x = x + stax.nn.gelu(normalised(x) @ block["up"]) @ block["down"]
    return normalised(x) @ parameters["last"]


def loss(parameters, windows):
    """Mean cross entropy, in nats a character, of (B, T + 1) characters."""
    scores = stax.nn.log_softmax(logits(parameters, windows[:, :-1]))
    return -np.take_along_axis(scores, windows[:, 1:, None], axis=-1).mean()


@stax.jit
def train_step(parameters, mean, square, rate, windows):
    """One step of Adam, whose bias a rate that warms up makes up for."""
    value, gradient = stax.value_and_grad(loss)(parameters, windows)
    mean = stax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = stax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    step = stax.tree.map(lambda m, s: rate * m / (np.sqrt(s) + 1e-8), mean, square)
    return stax.tree.map(np.subtract, parameters, step), mean, square, value


@stax.jit
def continued(parameters, codes, keys):
    """One more character for each key, drawn from the model; `codes` holds the last CONTEXT."""

    def draw(codes, key):
        new = random.categorical(key, logits(parameters, codes[None])[0, -1] * 1.4)
        return np.append(codes[1:], new).astype(codes.dtype), new

    return lax.scan(draw, codes, keys)[1]


def pair_loss(train, test, size):
    """The same of the next character given the last one, by counting pairs."""
    counts = 1 + np.bincount(train[:-1] * size + train[1:], minlength=size**2).reshape(size, size)
    return -np.log(counts / counts.sum(1, keepdims=True))[test[:-1], test[1:]].mean()


def main(steps=1500):
    rng, (codes, characters) = np.random.default_rng(0), load_text()
    train, test = np.split(codes, [len(codes) * 9 // 10])
    parameters = initial_parameters(rng, len(characters))
    mean = square = stax.tree.map(np.zeros_like, parameters)
    span = np.arange(CONTEXT + 1)

    start = time.perf_counter()
    for step in range(1, steps + 1):
        windows = train[rng.integers(len(train) - CONTEXT, size=(BATCH, 1)) + span]
        rate = np.float32(RATE * min(step / 50, 1 - step / (steps + 1)))
        parameters, mean, square, value = train_step(parameters, mean, square, rate, windows)
        if step == 1 or step % (steps // 8) == 0:
            print(f"step {step:5d}  loss {value:.3f}  {time.perf_counter() - start:6.1f} s")

    windows = test[: 512 * len(span)].reshape(-1, len(span))
    held_out = float(stax.jit(loss)(parameters, windows))
    pairs = float(pair_loss(train, test, len(characters)))
    print(f"held-out loss {held_out:.3f} nats a character; {pairs:.3f} by counting pairs")
    drawn = continued(parameters, test[:CONTEXT], random.split(random.PRNGKey(0), 300))
    print("".join(characters[k] for k in [*test[:CONTEXT], *drawn]))
    return held_out, pairs


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
