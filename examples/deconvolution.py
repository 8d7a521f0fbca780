"""Sharpen a blurred, noisy image by minimising its misfit plus the total variation.

The blur is a product in Fourier space (`np.fft.rfft2`), differentiated like everything else; the
steps are Nesterov's, in one scan, on a total variation with its corner rounded.

    python examples/deconvolution.py
"""

import argparse
import time

import numpy as np

import stax
from stax import lax

SIZE = 128
BLUR = 2.0
NOISE = 0.01
WEIGHT = 3e-4
SMOOTH = 1e-2

# Ellipses of Shepp and Logan's head phantom: brightness, half axes, centre, angle in degrees.
ELLIPSES = [
    (1.0, 0.69, 0.92, 0, 0, 0), (-0.8, 0.6624, 0.874, 0, -0.0184, 0),
    (-0.2, 0.11, 0.31, 0.22, 0, -18), (-0.2, 0.16, 0.41, -0.22, 0, 18),
    (0.1, 0.21, 0.25, 0, 0.35, 0), (0.1, 0.046, 0.046, 0, 0.1, 0),
    (0.1, 0.046, 0.046, 0, -0.1, 0), (0.1, 0.046, 0.023, -0.08, -0.605, 0),
    (0.1, 0.023, 0.023, 0, -0.606, 0), (0.1, 0.023, 0.046, 0.06, -0.605, 0),
]  # fmt: skip


def phantom():
    """The image, with values from 0 to 1."""
    x, y = np.meshgrid(np.linspace(-1, 1, SIZE), np.linspace(1, -1, SIZE))
    image = np.zeros((SIZE, SIZE))
    for value, a, b, x0, y0, degrees in ELLIPSES:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        u, v = (x - x0) * c + (y - y0) * s, (y - y0) * c - (x - x0) * s
        image += value * ((u / a) ** 2 + (v / b) ** 2 <= 1)
    return image


def transfer():
    """The Fourier transform of a Gaussian blur."""
    fx, fy = np.fft.rfftfreq(SIZE), np.fft.fftfreq(SIZE)[:, None]
    return np.exp(-2 * (np.pi * BLUR) ** 2 * (fx**2 + fy**2))


def blurred(image, h):
    return np.fft.irfft2(np.fft.rfft2(image) * h, image.shape)


def objective(image, seen, h):
    """Misfit to the blurred image, and the total variation with its corner rounded."""
    misfit = ((blurred(image, h) - seen) ** 2).sum() / 2
    dx, dy = np.diff(image, axis=1)[:-1], np.diff(image, axis=0)[:, :-1]
    return misfit + WEIGHT * np.sqrt(dx**2 + dy**2 + SMOOTH**2).sum()


def restored(seen, h, steps):
    """The image after so many steps of Nesterov's method, and the objective along the way."""
    rate = 1 / (1 + 8 * WEIGHT / SMOOTH)  # one over the largest curvature

    def step(state, k):
        image, ahead = state
        value, gradient = stax.value_and_grad(objective)(ahead, seen, h)
        new = ahead - rate * gradient
        return (new, new + k / (k + 3) * (new - image)), value

    (image, _), values = lax.scan(step, (seen, seen), np.arange(steps, dtype=seen.dtype))
    return image, values


def wiener(seen, h):
    """The best linear restoration for noise of one strength, for comparison."""
    noise = NOISE**2 * SIZE**2
    power = np.maximum(np.abs(np.fft.rfft2(seen)) ** 2 - noise, 1e-9) / np.maximum(h**2, 1e-3)
    return np.fft.irfft2(np.fft.rfft2(seen) * h * power / (h**2 * power + noise), seen.shape)


def quality(image, truth):
    """The peak signal-to-noise ratio in decibels."""
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


def show(image):
    """The image in characters."""
    small = image[: SIZE // 4 * 4].reshape(SIZE // 4, 4, SIZE // 2, 2).mean((1, 3)).clip(0, 1)
    for row in small:
        print("".join(" .:-=+*#%@"[round(9 * v**0.7)] for v in row))


def main(steps=200):
    truth, h = phantom(), transfer()
    seen = blurred(truth, h) + NOISE * np.random.default_rng(0).normal(size=truth.shape)
    run = stax.jit(restored, static_argnums=2)
    begun = time.perf_counter()
    run(seen, h, steps)
    begun, first = time.perf_counter(), time.perf_counter() - begun
    image, values = run(seen, h, steps)
    print(f"{steps} steps in {time.perf_counter() - begun:.2f} s; {first:.2f} s the first time")
    for k in np.linspace(0, steps - 1, 6).astype(int):
        print(f"step {k:4d}  objective {values[k]:.3f}")
    show(image)
    found = {"blurred": seen, "Wiener": wiener(seen, h), "total variation": image}
    figures = {name: quality(picture, truth) for name, picture in found.items()}
    for name, value in figures.items():
        print(f"{name:16} {value:.1f} dB")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
