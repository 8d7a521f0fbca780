"""example_libraries"""

import stax as jax
import stax.numpy as jnp
from stax.example_libraries import optimizers, stax
from stax.example_libraries.stax import (
    Dense,
    Relu,
    LogSoftmax,
    Conv,
    MaxPool,
    Flatten,
    Tanh,
    BatchNorm,
    Dropout,
)
from stax import random, grad, jit

results = {}
key = random.PRNGKey(0)


def loss(p):
    return jnp.sum((p["a"] - 3.0) ** 2) + jnp.sum(p["b"] ** 2)


p0 = {"a": jnp.zeros(3), "b": jnp.ones(2)}
for name, args in [
    ("sgd", (0.1,)),
    ("momentum", (0.05, 0.9)),
    ("nesterov", (0.05, 0.9)),
    ("adagrad", (0.5,)),
    ("rmsprop", (0.05,)),
    ("rmsprop_momentum", (0.05,)),
    ("adam", (0.1,)),
    ("adamax", (0.1,)),
]:
    oi, ou, gp = getattr(optimizers, name)(*args)
    s = oi(p0)

    @jit
    def step(i, s):
        return ou(i, grad(loss)(gp(s)), s)

    for i in range(8):
        s = step(i, s)
    results[name] = gp(s)
results["sched"] = [
    optimizers.exponential_decay(0.1, 10, 0.9)(5),
    optimizers.inverse_time_decay(0.1, 10, 0.5)(7),
    optimizers.inverse_time_decay(0.1, 10, 0.5, staircase=True)(17),
    optimizers.polynomial_decay(0.1, 10, 0.01)(4),
    optimizers.piecewise_constant([3, 6], [0.1, 0.01, 0.001])(4),
    optimizers.constant(0.3)(2),
]
results["clip"] = [optimizers.clip_grads({"a": jnp.ones(4) * 3}, 1.0), optimizers.l2_norm(p0)]
init, apply = stax.serial(Dense(8), Relu, Dense(3), LogSoftmax)
sh, params = init(key, (-1, 5))
results["serial"] = [list(sh), apply(params, jnp.ones((2, 5)))]
x = random.normal(key, (4, 8, 8, 1))
ci, ca = stax.serial(
    Conv(4, (3, 3), padding="SAME"), Relu, MaxPool((2, 2), strides=(2, 2)), Flatten, Dense(3)
)
s2, pc = ci(key, (4, 8, 8, 1))
results["conv"] = [list(s2), ca(pc, x), grad(lambda p: jnp.sum(ca(p, x) ** 2))(pc)[0][1]]
i3, a3 = stax.serial(stax.FanOut(2), stax.parallel(Dense(4), Dense(4)), stax.FanInSum, Tanh)
results["par"] = a3(i3(key, (-1, 5))[1], jnp.ones((2, 5)))
i4, a4 = stax.serial(Conv(2, (3, 3)), BatchNorm(), stax.AvgPool((2, 2)))
results["bn"] = a4(i4(key, (4, 8, 8, 1))[1], x)[0, 0]
i5, a5 = Dropout(0.6)
results["drop"] = a5(i5(key, (3,))[1], jnp.ones(6), rng=key)
