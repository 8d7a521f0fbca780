"""Sample a posterior by Hamiltonian Monte Carlo: scans, random keys, and vmap over chains.

All chains run in one compiled program.  The model is linear regression with known noise, so the
exact posterior is at hand: the figures are the errors of the sampled means and deviations.

    python examples/hmc.py
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_diabetes

import stax
from stax import lax, random

NOISE = 55.0
PRIOR = 100.0
STEP = 0.25
LEAPS = 8
WARM_UP = 100


def load_data():
    """442 patients: ten standardised measurements and a column of ones; disease after a year."""
    x, y = load_diabetes(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    return np.column_stack([np.ones(len(x)), x]), y


def log_density(w, x, y):
    """Log of prior times likelihood, up to a constant."""
    return -0.5 * (((y - x @ w) / NOISE) ** 2).sum() - 0.5 * ((w / PRIOR) ** 2).sum()


def exact_posterior(x, y):
    """Mean and covariance of the normal posterior."""
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(x.shape[1]) / PRIOR**2)
    return covariance @ x.T @ y / NOISE**2, covariance


def leapfrog(force, w, p, scale):
    """Follow Hamilton's equations for a while; `scale` holds one step size per coordinate."""

    def leap(_, state):
        w, p = state
        w = w + STEP * scale * p
        return w, p + STEP * scale * force(w)

    p = p + 0.5 * STEP * scale * force(w)
    w, p = lax.fori_loop(0, LEAPS, leap, (w, p))
    return w, p - 0.5 * STEP * scale * force(w)


def chain(key, w, x, y, scale, draws):
    """Draws from the posterior, and whether each proposal was accepted."""

    def density(w):
        return log_density(w, x, y)

    def draw(w, key):
        key_momentum, key_accept = random.split(key)
        p = random.normal(key_momentum, w.shape, np.float64)
        new_w, new_p = leapfrog(stax.grad(density), w, p, scale)
        gain = density(new_w) - 0.5 * new_p @ new_p - density(w) + 0.5 * p @ p
        accepted = np.log(random.uniform(key_accept, dtype=np.float64)) < gain
        w = np.where(accepted, new_w, w)
        return w, (w, accepted)

    _, (samples, accepted) = lax.scan(draw, w, random.split(key, WARM_UP + draws))
    return samples[WARM_UP:], accepted[WARM_UP:]


def main(chains=8, draws=2000):
    x, y = load_data()
    mean, covariance = exact_posterior(x, y)
    deviation = np.sqrt(np.diag(covariance))
    scale = 1 / np.sqrt(np.diag(-stax.hessian(log_density)(0 * mean, x, y)))
    keys = random.split(random.PRNGKey(0), chains)
    start = np.random.default_rng(0).normal(size=(chains, len(mean)))

    sampler = stax.jit(stax.vmap(lambda key, w: chain(key, w, x, y, scale, draws)), strict=True)
    begun = time.perf_counter()
    program = sampler.lower(keys, start).compile()
    print(f"compiled in {time.perf_counter() - begun:.2f} s")
    begun = time.perf_counter()
    samples, accepted = program(keys, start)
    seconds = time.perf_counter() - begun
    gradients = chains * (WARM_UP + draws) * (LEAPS + 2)
    print(f"{chains} chains of {draws} draws in {seconds:.2f} s")
    print(f"{gradients / seconds:,.0f} gradients a second, accepted {accepted.mean():.1%}")

    flat = samples.reshape(-1, len(mean))
    mean_error = np.abs((flat.mean(0) - mean) / deviation)
    deviation_error = np.abs(flat.std(0) / deviation - 1)
    print("weight       exact           sampled")
    for k, (m, s) in enumerate(zip(mean, deviation)):
        print(f"{k:6d} {m:8.2f} ± {s:5.2f} {flat[:, k].mean():8.2f} ± {flat[:, k].std():5.2f}")
    print(f"largest error of a mean {mean_error.max():.3f} posterior standard deviations")
    print(f"largest error of a standard deviation {deviation_error.max():.1%}")
    return float(mean_error.max()), float(deviation_error.max())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--draws", type=int, default=2000)
    arguments = parser.parse_args()
    main(arguments.chains, arguments.draws)
