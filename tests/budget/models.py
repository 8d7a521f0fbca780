"""Small models whose training step is compiled under a memory budget."""

from __future__ import annotations

import numpy as np

import stax


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def chain(depth=12, rows=256, width=64):
    """Tanh layers; the last argument is the input."""
    rng = np.random.default_rng(0)
    ws = weights(rng, width, width)
    x = rng.standard_normal((rows, width)).astype(np.float32)

    def f(ws, x):
        for _ in range(depth):
            x = np.tanh(x @ ws)
        return (x * x).sum()

    return f, (ws, x)


def mlp():
    rng = np.random.default_rng(0)
    ws = [weights(rng, 64, 64) for _ in range(8)]
    x = rng.standard_normal((256, 64)).astype(np.float32)

    def f(ws, x):
        for w in ws:
            x = np.maximum(x @ w, 0) + x
        return (x * x).mean()

    return f, (ws, x)


def transformer(blocks=4, batch=4, length=64, width=64, heads=4):
    rng = np.random.default_rng(0)
    params = [
        {
            "qkv": weights(rng, width, 3 * width),
            "out": weights(rng, width, width),
            "up": weights(rng, width, 4 * width),
            "down": weights(rng, 4 * width, width),
        }
        for _ in range(blocks)
    ]
    x = rng.standard_normal((batch, length, width)).astype(np.float32)

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    def block(p, x):
        qkv = (norm(x) @ p["qkv"]).reshape(batch, length, 3 * heads, width // heads)
        q, k, v = np.split(qkv.transpose(0, 2, 1, 3), 3, 1)
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // heads))
        mixed = (stax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + mixed.reshape(batch, length, width) @ p["out"]
        return x + stax.nn.gelu(norm(x) @ p["up"]) @ p["down"]

    def f(params, x):
        for p in params:
            x = block(p, x)
        return (x * x).mean()

    return f, (params, x)


def unet():
    rng = np.random.default_rng(0)
    down = [weights(rng, 16, 16) for _ in range(3)]
    up = [weights(rng, 32, 16) for _ in range(3)]
    x = rng.standard_normal((4, 64, 16)).astype(np.float32)

    def f(params, x):
        down, up = params
        skips = []
        for w in down:
            x = np.tanh(x @ w)
            skips.append(x)
            x = x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2]).mean(2)
        for w in up:
            x = np.repeat(x, 2, axis=1)
            x = np.tanh(np.concatenate([x, skips.pop()], -1) @ w)
        return (x * x).mean()

    return f, ((down, up), x)


def lstm(steps=16, batch=8, width=16):
    rng = np.random.default_rng(0)
    w = weights(rng, 2 * width, 4 * width)
    xs = rng.standard_normal((steps, batch, width)).astype(np.float32)
    sigmoid = stax.nn.sigmoid

    def f(w, xs):
        def step(carry, x):
            h, c = carry
            i, g, o, forget = np.split(np.concatenate([x, h], 1) @ w, 4, 1)
            c = sigmoid(forget) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            return (h, c), h.sum()

        zero = np.zeros((batch, width), np.float32)
        return stax.lax.scan(step, (zero, zero), xs)[1].sum()

    return f, (w, xs)


MODELS = {"mlp": mlp, "transformer": lambda: transformer(blocks=2), "unet": unet, "lstm": lstm}
