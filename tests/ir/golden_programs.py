"""The programs whose texts are recorded; their line numbers are part of the record."""

from __future__ import annotations

import numpy as np

import stax

A = np.arange(12.0).reshape(3, 4)
B = np.arange(8.0, dtype=np.float32).reshape(4, 2) / 8


def elementwise(x):
    y = np.tanh(x) * 2.0 + 1
    return np.where(y > 0.5, y, -y)


def shapes(x):
    return np.concatenate([x.T.reshape(2, -1), np.broadcast_to(x[:1, ::-1], (2, 4))], axis=1)


def softmax_loss(x, w):
    logits = x @ w
    return stax.nn.logsumexp(logits, axis=-1).mean()


def weight_gradient(x, w):
    return stax.nn.gelu(x @ w, approximate=False).sum()


def two_layers(x, w, v):
    return (np.tanh(np.tanh(x @ w) @ v) ** 2).sum()


F32 = A.astype(np.float32)

PROGRAMS = {
    "elementwise": lambda: stax.make_ir(elementwise)(A),
    "shapes": lambda: stax.make_ir(shapes)(A),
    "softmax_loss": lambda: stax.make_ir(softmax_loss)(F32, B),
    "weight_gradient": lambda: stax.joint_graph(weight_gradient, argnums=1)(F32, B),
    "two_layers": lambda: stax.joint_graph(two_layers, argnums=(1, 2))(F32, B, B.T),
    "two_layers_partition": lambda: stax.joint_graph(two_layers, argnums=(1, 2))(
        F32, B, B.T
    ).partition(),
}
