"""Time against peak memory of one training step: stax's `memory_budget`, torch.compile's
`activation_memory_budget`, and `jax.checkpoint` with its policies, on one transformer block.

`python -m benchmarks.memory` runs every setting of the peers, each in a process of its own, then
stax with the measured peak of each as its budget, and prints a Markdown table.  The peak is the
growth of resident memory during one call after compilation; the time is the least CPU time of a
call on one core.  The settings of a round are interleaved, and the least of all rounds counts.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time

import numpy as np

BATCH, LENGTH, WIDTH, HEADS = 8, 256, 256, 8
TORCH_BUDGETS = (1.0, 0.7, 0.5, 0.3, 0.1)
JAX_POLICIES = (
    "none",
    "everything_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "nothing_saveable",
)


def inputs():
    rng = np.random.default_rng(0)

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    params = [
        weights(WIDTH, 3 * WIDTH),
        weights(WIDTH, WIDTH),
        weights(WIDTH, 4 * WIDTH),
        weights(4 * WIDTH, WIDTH),
    ]
    return params, rng.standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)


def block(np, softmax, gelu, params, x):
    """One block in the style of the array library `np`."""
    qkv, out, up, down = params

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        centred = x - mean
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)

    heads = (norm(x) @ qkv).reshape(BATCH, LENGTH, 3 * HEADS, WIDTH // HEADS)
    q, k, v = np.split(heads.transpose(0, 2, 1, 3), 3, 1)
    scores = q @ k.transpose(0, 1, 3, 2) * np.float32((WIDTH // HEADS) ** -0.5)
    mixed = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
    x = x + mixed @ out
    return x + gelu(norm(x) @ up) @ down


def stax_step(setting):
    import stax

    def loss(params, x):
        y = block(stax.numpy, stax.nn.softmax, stax.nn.gelu, params, x)
        return (y * y).mean()

    budget = None if setting == "none" else int(setting)
    params, x = inputs()
    step = stax.jit(stax.value_and_grad(loss), memory_budget=budget).lower(params, x).compile()
    return lambda: step(params, x)


def jax_step(setting):
    import jax

    def one(params, x):
        return block(jax.numpy, jax.nn.softmax, jax.nn.gelu, params, x)

    if setting != "none":
        one = jax.checkpoint(one, policy=getattr(jax.checkpoint_policies, setting))

    def loss(params, x):
        y = one(params, x)
        return (y * y).mean()

    params, x = jax.tree.map(jax.numpy.asarray, inputs())
    step = jax.jit(jax.value_and_grad(loss)).lower(params, x).compile()
    return lambda: jax.block_until_ready(step(params, x))


def torch_step(setting):
    import torch
    import torch._functorch.config as config

    torch.set_num_threads(1)
    config.activation_memory_budget = float(setting)
    params, x = inputs()
    params = [torch.tensor(p, requires_grad=True) for p in params]
    x = torch.tensor(x)
    functional = torch.nn.functional

    def loss(params, x):
        qkv, out, up, down = params

        def norm(x):
            centred = x - x.mean(-1, keepdim=True)
            return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)

        heads = (norm(x) @ qkv).reshape(BATCH, LENGTH, 3 * HEADS, WIDTH // HEADS)
        q, k, v = heads.transpose(1, 2).chunk(3, 1)
        scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + mixed @ out
        y = x + functional.gelu(norm(x) @ up, approximate="tanh") @ down
        return (y * y).mean()

    compiled = torch.compile(loss)

    def step():
        value = compiled(params, x)
        return value.detach(), torch.autograd.grad(value, params)

    step()  # compiles
    return step


STEPS = {"stax": stax_step, "jax": jax_step, "torch": torch_step}


def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def measure(peer, setting, seconds):
    """Peak bytes of one call, and the least CPU time of many."""
    step = STEPS[peer](setting)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    before = status("VmRSS")
    outs = step()
    peak = status("VmHWM") - before
    del outs
    best, end = float("inf"), time.monotonic() + seconds
    calls = 0
    while calls < 3 or time.monotonic() < end:
        start = time.process_time()
        step()
        best = min(best, time.process_time() - start)
        calls += 1
    return {"peak": peak, "ms": 1e3 * best}


def run(peer, setting, seconds):
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--one", peer, str(setting)]
    threads = {f"{n}_NUM_THREADS": "1" for n in ("OMP", "OPENBLAS", "MKL", "STAX")}
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = {**os.environ, **threads, "XLA_FLAGS": flags}
    found = subprocess.run(
        [*command, "--seconds", str(seconds)], capture_output=True, text=True, env=environment
    )
    if found.returncode:
        lines = found.stderr.strip().splitlines()
        return {"error": lines[-1] if lines else f"exit {found.returncode}"}
    return json.loads(found.stdout.splitlines()[-1])


def least(old, new):
    """The better of two measurements of one setting: the least time, the usual peak."""
    if old is None or "error" in new:
        return new if old is None else old
    return {"peak": min(old["peak"], new["peak"]), "ms": min(old["ms"], new["ms"])}


def table(peers, rounds, seconds):
    settings = {
        "torch": [("torch", str(b)) for b in TORCH_BUDGETS],
        "jax": [("jax", p) for p in JAX_POLICIES],
    }
    rows = [s for p in peers for s in settings[p]]
    found = {}
    for _ in range(rounds):
        for key in rows:
            found[key] = least(found.get(key), run(*key, seconds))
    ours = {"none": None}
    for key in rows:
        if "peak" in found[key]:
            ours[key] = str(found[key]["peak"])
    for _ in range(rounds):
        for key, setting in ours.items():
            measured = run("stax", setting or "none", seconds)
            found["stax", key] = least(found.get(("stax", key)), measured)
    print("| peer, setting | peak MB | ms | stax within that peak, MB | ms | ratio |")
    print("|---|---|---|---|---|---|")
    for key in rows:
        peer, mine = found[key], found.get(("stax", key), {"error": ""})
        name = f"{key[0]}, {key[1]}"
        if "error" in peer:
            print(f"| {name} | {peer['error']} | | | | |")
            continue
        left = f"| {name} | {peer['peak'] / 1e6:.1f} | {peer['ms']:.0f} "
        if "error" in mine:
            print(f"{left}| {mine['error'][:60]} | | |")
        else:
            print(
                f"{left}| {mine['peak'] / 1e6:.1f} | {mine['ms']:.0f} | "
                f"{peer['ms'] / mine['ms']:.2f} |"
            )
    plain = found["stax", "none"]
    if "error" not in plain:
        print(f"| stax, no budget | | | {plain['peak'] / 1e6:.1f} | {plain['ms']:.0f} | |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, metavar=("PEER", "SETTING"), help="measure one setting")
    parser.add_argument("--peers", default="torch,jax")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each setting and round")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, given.seconds)))
    else:
        table(given.peers.split(","), given.rounds, given.seconds)
