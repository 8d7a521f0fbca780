"""Transformations: custom rules, checkpointing, closures, peak memory."""

import json
import math

import numpy as np

from tests.cases.frame import (
    A,
    Multi,
    N,
    api,
    case,
    ckpt,
    grad,
    hess,
    hvp,
    jac,
    jit,
    jvp,
    key,
    run_sub,
    same,
    snp,
    vmap,
)


@case(
    "perturbation_confusion",
    "jax-ml/jax#734 (perturbation confusion)",
    "nested derivatives confused",
)
def _():
    """d/dx [x * d/dy (x+y)] = 1; forward-over-reverse and reverse-over-forward agree"""
    f = lambda x: x * grad(lambda y: x + y)(1.0)
    g = lambda x: x * jvp(lambda y: x * y * y, (2.0,), (1.0,))[1]
    return (
        Multi(
            a=same(grad(f)(A(1.0)), 1, 0),
            aj=same(jit(grad(f))(A(1.0)), 1, 0),
            b=same(grad(g)(A(3.0)), 24, 0),
            bj=same(jit(grad(jit(g)))(A(3.0)), 24, 0),
        ),
        True,
        "exact",
    )


@case(
    "higher_order_jit",
    "jax-ml/jax#21220; optimistix#151; functorch#1097",
    "third derivatives and Hessians through nested jit/checkpoint",
)
def _():
    """Sin''' through jit(grad(jit(grad(checkpoint)))) = -cos; Rosenbrock Hessian and hvp in closed form; RBF Hessian at its centre = -I"""
    s = snp.sin
    d3 = jit(grad(jit(grad(ckpt(jit(grad(s)))))))
    ro = lambda v: (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2
    x = np.array([1.2, 0.7])
    H = np.array([[2 - 400 * (x[1] - 3 * x[0] ** 2), -400 * x[0]], [-400 * x[0], 200.0]])
    v = np.array([0.3, -1.0])
    rbf = lambda a: snp.exp(-snp.sum((a - np.array([1.0, 2.0])) ** 2) / 2)
    return (
        Multi(
            d3=same(d3(A(0.4)), -math.cos(0.4), 1e-12),
            H=same(jit(hess(ckpt(ro)))(A(x)), H, 1e-10),
            hv=same(hvp(jit(ro), A(x), A(v)), H @ v, 1e-10),
            rr=same(jac(grad(ro))(A(x)), H, 1e-10),
            rbf=same(jit(hess(rbf))(A([1.0, 2.0])), -np.eye(2), 1e-12),
        ),
        True,
        "exact",
    )


@case(
    "custom_rule_kept",
    "ott#15; jax-ml/jax#21220,#28805; pytorch#141881",
    "custom rule bypassed by jit, checkpoint or second order",
)
def _():
    """Identity with cotangent scaled by 10: kept under jit/checkpoint/vmap; hvp of custom cube = 6xv"""
    cv = api("custom_vjp")
    f = cv(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda res, g: (10.0 * g,))
    cj = api("custom_jvp")
    q = cj(lambda x: x**3)
    q.defjvp(lambda p, t: (q(p[0]), 3 * p[0] ** 2 * t[0]))
    w = lambda x: snp.sum(f(x) * 2.0)
    return (
        Multi(
            j=same(jit(grad(w))(A([1.0])), [20.0], 0),
            c=same(jit(grad(ckpt(w)))(A([1.0])), [20.0], 0),
            v=same(vmap(grad(lambda x: f(x) * 2.0))(A([1.0, 2.0])), [20.0, 20.0], 0),
            h=same(hvp(lambda x: snp.sum(q(x)), A([2.0]), A([5.0])), [60.0], 1e-12),
            hj=same(
                jit(lambda x: hvp(lambda z: snp.sum(ckpt(q)(z)), x, A([5.0])))(A([2.0])),
                [60.0],
                1e-12,
            ),
        ),
        True,
        "exact",
    )


@case("random_in_jit", "tinygrad#9108,#6869", "randomness frozen at trace time")
def _():
    """Keys 0 and 1 differ, key 0 repeats, jit equals eager"""
    u = api("random.uniform")
    f = jit(lambda k: u(k, (64,)))
    a, b, c = N(f(key(0))), N(f(key(1))), N(f(key(0)))
    return (
        Multi(
            diff=not np.array_equal(a, b),
            rep=np.array_equal(a, c),
            eager=bool(np.allclose(a, N(u(key(0), (64,))))),
            rng=bool((a >= 0).all() and (a < 1).all() and a.std() > 0.1),
        ),
        True,
        "exact",
    )


@case(
    "mem_elementwise_chain",
    "tinygrad#1049 (min-cut note); pytorch#130039",
    "saving every elementwise intermediate",
    slow=True,
)
def _():
    """24 sin() on 32 MB: peak growth of jit(grad) below 10 arrays (x, output, few temporaries), not 24"""
    r = run_sub("memchain", timeout=200)
    g = json.loads(r.stdout.strip().splitlines()[-1])["growth"]
    return bool(g < 10), True, "exact"


@case(
    "mem_checkpoint_matmul",
    "jax-ml/jax#19822,#27748; xla#3524; thunder#1560",
    "checkpoint does not lower the peak under jit",
    level="better",
    slow=True,
)
def _():
    """16 tanh(x@W) layers, checkpoint per 4: peak growth at most 0.8 of the plain one"""
    a = json.loads(run_sub("memmm0", timeout=280).stdout.strip().splitlines()[-1])["growth"]
    b = json.loads(run_sub("memmm1", timeout=280).stdout.strip().splitlines()[-1])["growth"]
    return bool(b <= 0.8 * a), True, "exact"
