"""Fit a Gaussian process: length scales by the gradient of the marginal likelihood.

The covariance is plain NumPy with `np.linalg.cholesky`; scipy's L-BFGS minimises the compiled value
and gradient.  The optimum and the predictions are compared with scikit-learn's.

    python examples/gaussian_process.py
"""

import time

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import stax

FEATURES = [2, 3, 8]  # body mass index, blood pressure, a serum measurement
TRAIN = 150


def load_data():
    """150 patients to fit and the others to predict: three measurements, and the disease."""
    x, y = load_diabetes(return_X_y=True)
    x, y = x[:, FEATURES], (y - y[:TRAIN].mean()) / y[:TRAIN].std()
    x = (x - x.mean(0)) / x.std(0)
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def covariance(log, a, b):
    """The squared exponential kernel between the rows of `a` and those of `b`."""
    a, b = a / np.exp(log["length"]), b / np.exp(log["length"])
    squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    return np.exp(log["signal"] - 0.5 * squares)


def factor(log, x):
    """The Cholesky factor of the covariance of the observations."""
    return np.linalg.cholesky(covariance(log, x, x) + np.exp(log["noise"]) * np.eye(len(x)))


def negative_log_likelihood(log, x, y):
    """Minus the log marginal likelihood: y is normal with the covariance of the observations."""
    root = factor(log, x)
    white = stax.scipy.linalg.solve_triangular(root, y, lower=True)
    log_determinant = 2 * np.log(np.diagonal(root)).sum()
    return 0.5 * (white @ white + log_determinant + len(y) * np.log(2 * np.pi))


def prediction(log, x, y, new):
    """The posterior mean at the rows of `new`."""
    root = factor(log, x)
    weights = stax.scipy.linalg.cho_solve((root, True), y)
    return covariance(log, new, x) @ weights


def reference(x, y):
    """The same model, fitted by scikit-learn."""
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    return GaussianProcessRegressor(kernel, alpha=0).fit(x, y)


def main():
    x, y, x_test, y_test = load_data()
    start = {"length": np.zeros(x.shape[1]), "noise": np.zeros(()), "signal": np.zeros(())}
    flat, unflatten = stax.flatten_util.ravel_pytree(start)
    objective = stax.jit(stax.value_and_grad(lambda v: negative_log_likelihood(unflatten(v), x, y)))
    begun = time.perf_counter()
    objective(flat)
    print(f"first call {time.perf_counter() - begun:.2f} s, compilation included")

    def report(v):
        print(f"negative log likelihood {objective(v)[0]:10.4f}   {np.round(np.exp(v), 2)}")

    begun = time.perf_counter()
    found = minimize(objective, flat, jac=True, method="L-BFGS-B", callback=report)
    print(f"{found.nfev} evaluations in {time.perf_counter() - begun:.2f} s")

    log = unflatten(found.x)
    theirs = reference(x, y)
    difference = theirs.log_marginal_likelihood_value_ + found.fun
    mean = stax.jit(prediction)(log, x, y, x_test)
    explained = 1 - ((mean - y_test) ** 2).mean() / y_test.var()
    apart = np.abs(mean - theirs.predict(x_test)).max()
    print("length scales", np.round(np.exp(log["length"]), 3))
    print(f"scikit-learn's optimum is better by {difference:.1e} nats")
    print(f"largest difference from its predictions {apart:.1e}")
    print(f"variance explained on {len(x_test)} other patients {explained:.1%}")
    return float(difference), float(apart)


if __name__ == "__main__":
    main()
