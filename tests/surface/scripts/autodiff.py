"""Derivatives in both modes: logistic regression, Jacobian and Hessian products, complex ones."""

import stax.numpy as jnp
from stax import grad, hessian, jacfwd, jacrev, jit, jvp, random, value_and_grad, vjp, vmap

results = {}
key = random.key(0)

results["tanh"] = [grad(jnp.tanh)(2.0), grad(grad(jnp.tanh))(2.0), grad(grad(grad(jnp.tanh)))(2.0)]


def sigmoid(x):
    return 0.5 * (jnp.tanh(x / 2) + 1)


def predict(W, b, inputs):
    return sigmoid(jnp.dot(inputs, W) + b)


inputs = jnp.array(
    [[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]
)
targets = jnp.array([True, True, False, True])


def loss(W, b):
    preds = predict(W, b, inputs)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


key, W_key, b_key = random.split(key, 3)
W = random.normal(W_key, (3,))
b = random.normal(b_key, ())
results["W_grad"] = grad(loss, argnums=0)(W, b)
results["W_grad_default"] = grad(loss)(W, b)
results["b_grad"] = grad(loss, 1)(W, b)
results["both"] = grad(loss, (0, 1))(W, b)


def loss2(params_dict):
    preds = predict(params_dict["W"], params_dict["b"], inputs)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


results["dict"] = grad(loss2)({"W": W, "b": b})
loss_value, Wb_grad = value_and_grad(loss, (0, 1))(W, b)
results["value"] = loss_value

eps = 1e-4
key, subkey = random.split(key)
vec = random.normal(subkey, W.shape)
unitvec = vec / jnp.sqrt(jnp.vdot(vec, vec))
results["directional"] = jnp.vdot(Wb_grad[0], unitvec)


def hvp(f, x, v):
    return grad(lambda x: jnp.vdot(grad(f)(x), v))(x)


f = lambda W: predict(W, b, inputs)
J = jacfwd(f)(W)
results["jacfwd"] = J
results["jacrev"] = jacrev(f)(W)
results["jacrev_of_dict"] = jacrev(lambda p: predict(p["W"], p["b"], inputs))({"W": W, "b": b})
results["hessian"] = hessian(f)(W)

v = random.normal(subkey, W.shape)
y, u = jvp(f, (W,), (v,))
results["jvp"] = (y, u)
y, vjp_fun = vjp(f, W)
u = random.normal(subkey, y.shape)
results["vjp"] = vjp_fun(u)


def vgrad(f, x):
    y, vjp_fn = vjp(f, x)
    return vjp_fn(jnp.ones(y.shape))[0]


results["vgrad"] = vgrad(lambda x: 3 * x**2, jnp.ones((2, 2)))


def hvp_forward_over_reverse(f, primals, tangents):
    return jvp(grad(f), primals, tangents)[1]


def hvp_reverse_over_forward(f, primals, tangents):
    g = lambda primals: jvp(f, primals, tangents)[1]
    return grad(g)(primals)


def cube_tanh(X):
    return jnp.sum(jnp.tanh(X) ** 2)


X = random.normal(random.key(3), (6, 5))
V = random.normal(random.key(4), (6, 5))
ans1 = hvp_forward_over_reverse(cube_tanh, (X,), (V,))
ans2 = hvp(cube_tanh, X, V)
results["hvp"] = ans1
results["hvp_agree"] = jnp.allclose(ans1, ans2, 1e-4, 1e-4)
ans3 = jnp.tensordot(hessian(cube_tanh)(X), V, 2)
results["hvp_full"] = jnp.allclose(ans1, ans3, 1e-4, 1e-4)


def vmap_mjp(f, x, M):
    _y, vjp_fun = vjp(f, x)
    (outs,) = vmap(vjp_fun)(M)
    return outs


U = random.normal(random.key(5), (7, y.shape[0]))
results["vmap_mjp"] = vmap_mjp(f, W, U)


def our_jacrev(f):
    def jacfun(x):
        y, vjp_fun = vjp(f, x)
        (J,) = vmap(vjp_fun, in_axes=0)(jnp.eye(len(y)))
        return J

    return jacfun


def our_jacfwd(f):
    def jacfun(x):
        push = lambda s: jvp(f, (x,), (s,))[1]
        return vmap(push, out_axes=-1, in_axes=-1)(jnp.eye(len(x)))

    return jacfun


results["our_jacrev"] = our_jacrev(f)(W)
results["our_jacfwd"] = our_jacfwd(f)(W)


def g(z):
    x, y = jnp.real(z), jnp.imag(z)
    return x**2 - y**2 + 1j * (2 * x * y)


z = 3.0 + 4j
results["holomorphic"] = grad(g, holomorphic=True)(z)
results["complex_grad"] = vjp(jnp.abs, z)[1](1.0)
results["sin"] = grad(jnp.sin, holomorphic=True)(z)
results["conj"] = grad(jnp.conj, holomorphic=True)(z)
A = jnp.array([[5.0, 2.0 + 3j, 5j], [2.0 - 3j, 7.0, 1.0 + 7j], [-5j, 1.0 - 7j, 12.0]])


def det_like(X):
    L = jnp.linalg.cholesky(X)
    return jnp.sum((L - jnp.sin(L)) ** 2)


results["cholesky"] = grad(det_like, holomorphic=True)(A)
results["jit"] = jit(grad(loss, (0, 1)))(W, b)
