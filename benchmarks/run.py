"""Driver: python -m benchmarks run [--pass NAME] [--peers a,b] [--workloads a,b] [--threads N]

Every peer has a process of its own; for each workload first calls happen one after
another, then the peers are timed in interleaved rounds.  Appends to results.jsonl.
"""

import argparse
import importlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

from benchmarks.worker import PEERS, ROOT, WORK, chosen
from benchmarks.workloads import WORKLOADS

DROP = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def peers_for(name, want):
    out = []
    for p in want:
        mod = importlib.import_module(PEERS[p][0])
        only = ["v"] if p == "torch.lstm" else getattr(mod, "ONLY", None)
        if (only is None or name in only) and getattr(mod, "available", lambda: True)():
            out.append(p)
    return out


def busy(dt):
    """Fraction of the machine's CPU busy over the next dt seconds."""

    def snap():
        v = list(map(int, open("/proc/stat").readline().split()[1:9]))
        return sum(v), v[3] + v[4]

    a = snap()
    time.sleep(dt)
    b = snap()
    return 1 - (b[1] - a[1]) / max(1, b[0] - a[0])


def wait_quiet(patience):
    """Others share the machine: wait (at most `patience` s) for a quiet moment."""
    end = time.time() + patience
    while busy(0.06) > 0.25 and time.time() < end:
        pass


class Proc:
    def __init__(self, peer, w, threads, cache):
        self.peer = peer
        env = {k: v for k, v in os.environ.items() if k not in DROP}
        for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            env[k] = str(threads)
        env.update(importlib.import_module(PEERS[peer][0]).env(threads, cache, w))
        cpus = set(sorted(os.sched_getaffinity(0))[CORE : CORE + threads])
        self.log = open(f"{WORK}/logs/{peer}.log", "a")
        self.p = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=env,
            cwd=ROOT,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        self.hello = self.read(300)
        print(f"{peer}: {self.hello}", flush=True)

    def ask(self, timeout=300, **cmd):
        try:
            self.p.stdin.write((json.dumps(cmd) + "\n").encode())
            self.p.stdin.flush()
        except BrokenPipeError:
            return self.died()
        return self.read(timeout)

    def read(self, timeout):
        if not select.select([self.p.stdout], [], [], timeout)[0]:
            self.p.kill()
            self.p.wait()
            return {"error": f"timeout {timeout}s"}
        line = self.p.stdout.readline()
        return json.loads(line) if line else self.died()

    def died(self):
        """Say what a process that has ended wrote last."""
        code = self.p.wait()
        with open(self.log.name, errors="replace") as log:
            last = (log.read().strip().splitlines() or [""])[-1]
        return {"error": f"process died ({code}): {last} (more in {self.log.name})"}

    def close(self):
        if self.p.poll() is None:
            try:
                self.p.stdin.write(b'{"cmd": "quit"}\n')
                self.p.stdin.close()
                self.p.wait(5)
            except Exception:
                self.p.kill()
        self.log.close()


CORE = 0


def main(argv=None):
    global CORE
    ap = argparse.ArgumentParser(prog="python -m benchmarks run")
    ap.add_argument(
        "--pass", dest="tag", default="cold", help="label; 'cold' empties the caches first"
    )
    ap.add_argument("--peers", default=",".join(PEERS))
    ap.add_argument("--workloads", default=",".join(WORKLOADS))
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=4)
    ap.add_argument("--seconds", type=float, default=0.2, help="per peer and round")
    ap.add_argument(
        "--patience", type=float, default=1.0, help="s to wait for a quiet moment per batch"
    )
    ap.add_argument("--timeout", type=float, default=300)
    ap.add_argument("--out", default=WORK + "/results.jsonl")
    ap.add_argument("--core", type=int, default=0, help="first core to pin to")
    ap.add_argument("--cache", default=WORK + "/cache")
    a = ap.parse_args(argv)
    CORE = a.core
    peers = chosen(a.peers, PEERS, "peer")
    workloads = chosen(a.workloads, WORKLOADS, "workload")
    for d in ("ref", "logs", "cache"):
        os.makedirs(f"{WORK}/{d}", exist_ok=True)
    out = open(a.out, "a")
    cache = a.cache
    if a.tag.startswith("cold"):
        shutil.rmtree(cache, ignore_errors=True)
    os.makedirs(cache, exist_ok=True)
    live = {}
    for name in workloads:
        w = WORKLOADS[name]
        if not os.path.exists(f"{WORK}/ref/{name}.npz"):
            reference = [sys.executable, "-m", "benchmarks.worker", "ref", name]
            if subprocess.call(reference, cwd=ROOT):  # which has said why
                sys.exit(f"there is no reference for workload {name}: nothing was timed")
        procs, recs = [], {}
        for p in peers_for(name, peers):
            wide = w.f64 or w.i64
            split = wide and getattr(importlib.import_module(PEERS[p][0]), "SPLIT_64", False)
            # Memory that earlier workloads left in a process would hide what this one takes.
            key = p, name if w.mem else split
            pr = live.get(key)
            if pr is None or pr.p.poll() is not None:
                pr = live[key] = Proc(p, w, a.threads, cache)
            r = pr.ask(a.timeout, cmd="first", name=name)
            recs[p] = dict(
                workload=name, peer=p, threads=a.threads, tag=a.tag, load=os.getloadavg()[0], **r
            )
            if "error" in r:
                print(f"  {name} {p}: {r['error'][:160]}", flush=True)
            else:
                procs.append(pr)
                recs[p]["times"], recs[p]["cpu"] = [], []
        for k in range(a.rounds):
            for pr in procs:
                if k and recs[pr.peer]["one_s"] > 1:  # a slow peer gets one round
                    continue
                wait_quiet(a.patience)
                r = pr.ask(a.timeout, cmd="batch", seconds=a.seconds)
                if "error" in r:
                    recs[pr.peer]["error"] = r["error"]
                else:
                    recs[pr.peer]["times"].append(r["times"])
                    recs[pr.peer]["cpu"] += r["cpu"]
        for pr in procs:
            if w.mem:
                recs[pr.peer].update(pr.ask(a.timeout, cmd="mem"))
        line = []
        for p, r in recs.items():
            rounds, cs = r.pop("times", None), sorted(r.pop("cpu", []))
            if rounds:
                r["cpu_median_s"], r["cpu_min_s"] = cs[len(cs) // 2], cs[0]
                flat = sorted(t for q in rounds for t in q)
                r["median_s"], r["min_s"], r["n"] = flat[len(flat) // 2], flat[0], len(flat)
                r["round_medians_s"] = [sorted(q)[len(q) // 2] for q in rounds]
                line.append(
                    f"{p} {r['median_s'] * 1e3:.4g}(min {r['min_s'] * 1e3:.3g}, "
                    f"cpu {r['cpu_min_s'] * 1e3:.3g})ms/{r['first_cpu_s']:.2f}s"
                )
            out.write(json.dumps(r) + "\n")
        out.flush()
        print(
            f"{time.strftime('%H:%M:%S')} [{a.tag} {a.threads}T] {name}: " + "  ".join(line),
            flush=True,
        )
    for pr in live.values():
        pr.close()


if __name__ == "__main__":
    main()
