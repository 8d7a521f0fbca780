"""Learn the law of a spiral with a neural differential equation, differentiated by its adjoint.

`stax.scipy.integrate.odeint` chooses its steps, and solves the adjoint equation backwards in time
for the gradient, which is compared with the gradient straight through a Runge-Kutta scan.

    python examples/neural_ode.py
"""

import argparse
import time

import numpy as np

import stax
from stax import lax
from stax.scipy.integrate import odeint

TRUE = np.array([[-0.1, 2.0], [-2.0, -0.1]])
START = np.array([2.0, 0.0])
TIMES = np.linspace(0, 10, 200)
WINDOW, BATCH = 12, 20
RATE = 1e-2


def true_law(y, t):
    return (y**3) @ TRUE


def initial_parameters(rng):
    w = rng.normal(size=(2, 32)) / np.sqrt(2)
    return {"w": w, "b": np.zeros(32), "v": 0.1 * rng.normal(size=(32, 2)), "c": np.zeros(2)}


def law(y, t, parameters):
    """The learned velocity at y."""
    h = np.tanh((y**3) @ parameters["w"] + parameters["b"])
    return h @ parameters["v"] + parameters["c"]


def adaptive(parameters, y0, t):
    """The paths from the states y0 (B, 2), by steps chosen by their error: (T, B, 2)."""
    return odeint(law, y0, t, parameters, rtol=1e-6, atol=1e-7)


def fixed_steps(parameters, y0, t, substeps=8):
    """The same by Runge and Kutta's method in a scan."""

    def step(y, dt):
        a = law(y, 0, parameters)
        b = law(y + dt / 2 * a, 0, parameters)
        c = law(y + dt / 2 * b, 0, parameters)
        return y + dt / 6 * (a + 2 * b + 2 * c + law(y + dt * c, 0, parameters)), y

    steps = np.repeat(np.diff(t) / substeps, substeps)
    last, path = lax.scan(step, y0, steps)
    return np.concatenate([path[::substeps], last[None]])


def loss(parameters, y0, t, path, solver=adaptive):
    return np.abs(solver(parameters, y0, t) - path).mean()


@stax.jit
def train_step(parameters, state, rate, y0, path):
    """One step of Adam."""
    value, gradient = stax.value_and_grad(loss)(parameters, y0, TIMES[:WINDOW], path)
    count, mean, square = state
    count = count + 1
    mean = stax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = stax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    scale = rate * np.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    parameters = stax.tree.map(
        lambda p, m, s: p - scale * m / (np.sqrt(s) + 1e-8), parameters, mean, square
    )
    return parameters, (count, mean, square), value


def main(steps=1000):
    rng = np.random.default_rng(0)
    spiral = stax.jit(lambda: odeint(true_law, START, TIMES))()
    parameters = initial_parameters(rng)
    zeros = stax.tree.map(np.zeros_like, parameters)
    state = 0.0, zeros, zeros

    start = time.perf_counter()
    for step in range(1, steps + 1):
        rows = rng.choice(len(TIMES) - WINDOW, (1, BATCH)) + np.arange(WINDOW)[:, None]
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        parameters, state, value = train_step(
            parameters, state, rate, spiral[rows[0]], spiral[rows]
        )
        if step == 1:
            print(f"first step {time.perf_counter() - start:.2f} s, compilation included")
            start = time.perf_counter()
        if step % (steps // 6) == 0:
            print(f"step {step:4d}  mean distance {value:.4f}")
    print(f"{(steps - 1) / (time.perf_counter() - start):,.0f} steps a second")

    data = spiral[:1], TIMES[:60], spiral[:60, None]
    adjoint = stax.jit(stax.grad(loss))(parameters, *data)
    direct = stax.jit(stax.grad(lambda *a: loss(*a, fixed_steps)))(parameters, *data)
    parts = [
        np.abs(a - b).max() / np.abs(b).max()
        for a, b in zip(stax.tree.leaves(adjoint), stax.tree.leaves(direct))
    ]
    path = stax.jit(adaptive)(parameters, spiral[:1], TIMES)[:, 0]
    error = float(np.abs(path - spiral).mean())
    print(f"adjoint and direct gradients differ by {max(parts):.1e}")
    print(f"whole spiral from its first point alone: mean distance {error:.3f}")
    return error, float(max(parts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000)
    main(parser.parse_args().steps)
