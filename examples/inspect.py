"""Print every stage of one small program, from the NumPy function to the C source.

The program is a layer with a GELU and a sum, differentiated with respect to its weights only.

    python examples/inspect.py
"""

import sys

if __name__ == "inspect":
    # A script's folder comes first on the path, so the other examples, and NumPy in them, find
    # this file where they ask for the standard library's module of the same name: give it to them.
    import importlib.machinery
    import importlib.util
    import sysconfig

    spec = importlib.machinery.PathFinder.find_spec("inspect", [sysconfig.get_path("stdlib")])
    sys.modules["inspect"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["inspect"])
else:
    import numpy as np

    import stax


def f(x, w):
    return stax.nn.gelu(x @ w, approximate=False).sum()


def heading(text):
    print(f"\n{'=' * 8} {text}")


def main():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 64), np.float32)
    w = rng.standard_normal((64, 64), np.float32)

    heading("1. the function, operation by operation")
    print(stax.make_ir(f)(x, w))

    heading("2. forward and backward as one graph; no equation computes the gradient of x")
    joint = stax.joint_graph(f, argnums=1)(x, w)
    print(joint)

    heading("3. which values the backward part reads: a minimum cut")
    print(joint.partition())

    gradient = stax.jit(stax.grad(f, argnums=1))
    lowered = gradient.lower(x, w)

    heading("4. jit(grad(f)) as traced, then with calls opened and dead work removed")
    print(lowered.as_text("graph"))
    print(lowered.as_text("joint"))

    heading("5. loops: what is written to memory, and how each element is computed")
    print(lowered.as_text("loops"))

    heading("6. kernels and library calls, in order")
    print(lowered.as_text("schedule"))

    heading("7. C")
    print(lowered.as_text("source"))

    heading("8. compiled")
    compiled = lowered.compile()
    result, expected = compiled(x, w), stax.grad(f, argnums=1)(x, w)
    difference = float(np.abs(result - expected).max() / np.abs(expected).max())
    for stage, seconds in compiled.timings.items():
        print(f"{stage:10} {1000 * seconds:8.2f} ms")
    print(compiled.memory_analysis())
    print(compiled.cost_analysis())
    print(f"largest relative difference from the un-jitted gradient: {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
