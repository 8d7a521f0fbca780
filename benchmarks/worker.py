"""One process = one peer; runs one workload after another.  JSON lines on stdin/stdout."""

import gc
import importlib
import importlib.util
import json
import os
import sys
import time

PEERS = {  # name: (module, class)
    "jax": ("benchmarks.peers.jax_peer", "Peer"),
    "torch.compile": ("benchmarks.peers.torch_peer", "CompilePeer"),
    "torch": ("benchmarks.peers.torch_peer", "Peer"),
    "torch.lstm": ("benchmarks.peers.torch_peer", "FusedLSTM"),
    "numpy": ("benchmarks.peers.numpy_peer", "Peer"),
    "numba": ("benchmarks.peers.numba_peer", "Peer"),
    "autograd": ("benchmarks.peers.autograd_peer", "Peer"),
    "numexpr": ("benchmarks.peers.numexpr_peer", "Peer"),
    "stax": ("benchmarks.peers.stax_peer", "Peer"),
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.environ.get("BENCHMARKS_WORK", os.path.join(ROOT, "benchmarks", "work"))


def chosen(text, known, what):
    """Return the names in a comma-separated list; ends the program for one that is not `known`."""
    names = text.split(",")
    for name in names:
        if name not in known:
            sys.exit(f"no {what} is called {name!r}; there are {', '.join(known)}")
    return names


def leaves(t):
    if isinstance(t, (list, tuple)):
        return [y for x in t for y in leaves(x)]
    if isinstance(t, dict):
        return [y for k in sorted(t) for y in leaves(t[k])]
    return [t]


def rss(key="VmRSS"):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024


def reset_hwm():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def check(got, ref, tol):
    import numpy as np

    if len(got) != len(ref):
        return f"{len(got)} outputs, want {len(ref)}"
    worst = 0.0
    for k, (g, r) in enumerate(zip(got, ref)):
        if tuple(g.shape) != tuple(r.shape):
            return f"output {k} shape {g.shape}, want {r.shape}"
        err = float(np.max(np.abs(g.astype(np.float64) - r)))
        rel = err / (float(np.max(np.abs(r))) or 1.0)
        if not rel <= tol:
            return f"output {k}: max err / max |ref| = {rel:.2e} > {tol:.0e}"
        worst = max(worst, rel)
    return worst


def reference(name):
    """float64 NumPy (autograd) result of the workload's definition."""
    import numpy as np

    from benchmarks.peers import autograd_peer
    from benchmarks.workloads import WORKLOADS

    up = lambda t: (
        type(t)(up(x) for x in t)
        if isinstance(t, (list, tuple))
        else t.astype(np.float64)
        if t.dtype.kind == "f"
        else t
    )
    p = autograd_peer.Peer(1)
    out = p.build(name)(*up(WORKLOADS[name].make()))
    return [np.asarray(o) for o in leaves(out)]


def main(peer, threads):
    import numpy as np

    from benchmarks.workloads import WORKLOADS

    out_fd = os.dup(1)
    os.dup2(2, 1)  # keep libraries off the protocol
    say = lambda **k: os.write(out_fd, (json.dumps(k) + "\n").encode())
    mod, cls = PEERS[peer]
    P = getattr(importlib.import_module(mod), cls)(threads)
    clock, cpu = time.perf_counter, time.process_time
    t, c = clock(), sum(os.times()[:4])
    P.boot()
    boot, boot_cpu = clock() - t, sum(os.times()[:4]) - c
    say(import_s=P.import_s, boot_s=boot)
    f = args = out = ref = None
    for line in sys.stdin:
        cmd = json.loads(line)
        try:
            if cmd["cmd"] == "first":
                name = cmd["name"]
                w = WORKLOADS[name]
                f = args = out = ref = None
                if hasattr(P, "reset"):
                    P.reset()
                gc.collect()
                args = P.put(w.make())
                reset_hwm()
                base = rss()
                t, c = clock(), sum(os.times()[:4])
                f = P.build(name)
                out = f(*args)
                first, first_cpu = clock() - t, sum(os.times()[:4]) - c  # + gcc children
                hwm = rss("VmHWM")
                ref = np.load(f"{WORK}/ref/{name}.npz")
                err = check(P.to_numpy(name, out), [ref[k] for k in ref.files], w.tol)
                if isinstance(err, str):
                    say(error="WRONG: " + err)
                    continue
                out = ref = None
                for _ in range(3):  # settle; calibrate
                    t = clock()
                    f(*args)
                    one = clock() - t
                    if one > 0.5:
                        break
                say(
                    import_s=P.import_s,
                    boot_s=boot,
                    boot_cpu_s=boot_cpu,
                    first_s=first,
                    first_cpu_s=first_cpu,
                    err=err,
                    one_s=one,
                    base_mb=base,
                    first_hwm_mb=hwm,
                )
            elif cmd["cmd"] == "batch":
                inner = max(1, int(2e-4 / max(one, 1e-8)))
                ts, cs, end = [], [], clock() + cmd["seconds"]
                while len(ts) < (3 if one < 0.3 else 1) or clock() < end:
                    t, c = clock(), cpu()
                    for _ in range(inner):
                        f(*args)
                    ts.append((clock() - t) / inner)
                    cs.append((cpu() - c) / inner)
                one = min(ts)
                say(times=ts, cpu=cs)
            elif cmd["cmd"] == "mem":
                r0 = rss()
                reset_hwm()
                for _ in range(5 if one < 0.5 else 1):
                    f(*args)
                say(steady_rss_mb=r0, steady_hwm_mb=rss("VmHWM"))
            elif cmd["cmd"] == "quit":
                return
        except Exception as e:
            import traceback

            traceback.print_exc()
            say(error=f"{type(e).__name__}: {str(e)[:300]}")


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        from benchmarks.peers import torch_peer

        P = torch_peer.CompilePeer(int(sys.argv[2]))
        t = time.perf_counter()
        P.boot()
        print(
            f"torch.compile boot with an empty cache: {time.perf_counter() - t:.1f} s", flush=True
        )
    elif sys.argv[1] == "ref":
        import numpy as np

        if importlib.util.find_spec("autograd") is None:
            sys.exit(
                "results are checked against HIPS autograd, which is not installed: "
                "pip install -r benchmarks/requirements.txt"
            )
        for n in sys.argv[2:]:
            np.savez(f"{WORK}/ref/{n}.npz", *reference(n))
    else:
        main(sys.argv[1], int(sys.argv[2]))
