"""Fit logistic regression by Newton's method, with Hessian-vector products and no Hessian.

The loss is plain NumPy and is never compiled: `stax.value_and_grad` and `stax.hvp` run it as it
stands.  Each Newton step solves H s = -g by conjugate gradients, which asks for products H v only.
The result is compared with scikit-learn's.

    python examples/newton_logistic.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import stax


def load_data():
    """569 tumours: 30 measurements each, standardised, and a label of -1 or 1."""
    x, label = load_breast_cancer(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), 2.0 * label - 1


def loss(parameters, x, y):
    """Negative log likelihood with half the squared length of the weights added."""
    margin = y * (x @ parameters["w"] + parameters["b"])
    return np.logaddexp(0, -margin).sum() + 0.5 * (parameters["w"] ** 2).sum()


def dot(a, b):
    return sum(np.vdot(p, q) for p, q in zip(stax.tree.leaves(a), stax.tree.leaves(b)))


def along(a, scale, b):
    """A + scale * b, leaf by leaf."""
    return stax.tree.map(lambda p, q: p + scale * q, a, b)


def conjugate_gradients(product, b, tolerance):
    """The solution s of `product(s) = b` to a relative residual, and the products it took."""
    s = stax.tree.map(np.zeros_like, b)
    residual = direction = b
    size = dot(residual, residual)
    limit = tolerance**2 * size
    count = 0
    while size > limit:
        image = product(direction)
        step = size / dot(direction, image)
        s = along(s, step, direction)
        residual = along(residual, -step, image)
        before, size = size, dot(residual, residual)
        direction = along(residual, size / before, direction)
        count += 1
    return s, count


def newton(x, y, tolerance=1e-8):
    """The minimiser, printing one line a step."""
    parameters = {"w": np.zeros(x.shape[1]), "b": np.array(0.0)}
    value_and_grad = stax.value_and_grad(loss)
    print("step       loss   |gradient|   products H v")
    for k in range(1, 50):
        value, gradient = value_and_grad(parameters, x, y)
        length = np.sqrt(dot(gradient, gradient))

        def product(v, at=parameters):
            return stax.hvp(lambda p: loss(p, x, y), (at,), (v,))[0]

        # Far from the minimum a rough direction will do; near it this gives quadratic convergence.
        downhill = stax.tree.map(np.negative, gradient)
        direction, count = conjugate_gradients(product, downhill, min(0.1, length))
        print(f"{k:4d} {value:10.5f} {length:12.2e} {count:14d}")
        if length < tolerance:
            return parameters
        scale = 1.0
        while loss(along(parameters, scale, direction), x, y) > value and scale > 1e-6:
            scale /= 2
        parameters = along(parameters, scale, direction)
    raise RuntimeError(f"the gradient is still {length:.2e} long")


def main():
    x, y = load_data()
    parameters = newton(x, y)
    reference = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(x, y)
    difference = max(
        np.abs(parameters["w"] - reference.coef_[0]).max(),
        np.abs(parameters["b"] - reference.intercept_[0]),
    )
    accuracy = np.mean(np.sign(x @ parameters["w"] + parameters["b"]) == y)
    print(f"accuracy on the data {accuracy:.1%}")
    print(f"largest difference from scikit-learn's coefficients {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
