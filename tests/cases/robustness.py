"""The compiler, its cache and the machine: deep graphs, races, torn files, no compiler."""

import functools
import json
import os
import resource
import subprocess
import tempfile
import time

import numpy as np

from tests.cases.frame import (
    ROOT,
    A,
    Missing,
    Multi,
    N,
    case,
    child_env,
    grad,
    jit,
    run_sub,
    snp,
    sub_cmd,
)


@case(
    "deep_graph",
    "micrograd#90; tinygrad#7293; storchastic#87; pytorch#197724",
    "recursion depth, 10^4 ops",
    slow=True,
)
def _():
    """10^4 x -> 1.0001x+1e-6, eager grad: 1.0001^10000, no RecursionError"""
    r = run_sub("deep", timeout=300)
    return (
        (r.returncode, r.stdout.strip().splitlines()[-1:] or [r.stderr[-200:]]),
        (0, ["ok"]),
        "exact",
    )


@case(
    "deep_graph_jit",
    "jax-ml/jax#2777,#532,#200; pytorch#87447",
    "compile time of a 3000-op straight line",
    slow=True,
)
def _():
    """jit(grad) of 3000 mul-adds inside 120 s"""
    r = run_sub("deepjit", timeout=120)
    return (
        (r.returncode, r.stdout.strip().splitlines()[-1:] or [r.stderr[-200:]]),
        (0, ["ok"]),
        "exact",
    )


@case(
    "compile_scaling",
    "jax-ml/jax#3596; pytorch#194011",
    "trace+compile superlinear in op count",
    level="better",
    slow=True,
)
def _():
    """Doubling 200->400->800 distinct ops: time ratio of the last doubling below 3.2"""

    def t(n):
        f = lambda x: functools.reduce(lambda a, i: snp.sin(a) * (1 + i / 7.0), range(n), x)
        s = time.perf_counter()
        N(jit(grad(f))(A(0.1 + n * 1e-6)))
        return time.perf_counter() - s

    t(50)
    t(200)
    a, b = t(400), t(800)
    return bool(b / a < 3.2), True, "exact"


@case(
    "cache_concurrent",
    "triton#11512; jax-ml/jax#22718; torchdynamo#1185",
    "6 processes fill one cache at once",
    slow=True,
)
def _():
    """Six processes compile the same function with one empty cache: six right results"""
    d = tempfile.mkdtemp()
    ps = [
        subprocess.Popen(
            sub_cmd("small"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=child_env(d),
        )
        for _ in range(6)
    ]
    o = [(p.communicate(timeout=200), p.returncode) for p in ps]
    return [(rc, out.strip().splitlines()[-1:]) for (out, _), rc in o], [(0, ["ok"])] * 6, "exact"


@case(
    "cache_corrupt",
    "jax-ml/jax#22718; emfdavid/insitubatch#42",
    "truncated / garbage cache entries",
    slow=True,
)
def _():
    """Every file of the cache is cut in half, then filled with zeros: still right, no crash"""
    d = tempfile.mkdtemp()
    res = []
    subprocess.run(sub_cmd("small"), cwd=ROOT, env=child_env(d), capture_output=True, timeout=120)
    for how in ("half", "zero", "empty"):
        for root, _, fs in os.walk(d):
            for f in fs:
                p = os.path.join(root, f)
                n = os.path.getsize(p)
                try:
                    with open(p, "r+b") as h:
                        if how == "half":
                            h.truncate(n // 2)
                        elif how == "zero":
                            h.write(b"\0" * n)
                        else:
                            h.truncate(0)
                except OSError:
                    pass
        r = subprocess.run(
            sub_cmd("small"),
            cwd=ROOT,
            env=child_env(d),
            capture_output=True,
            text=True,
            timeout=120,
        )
        res.append((r.returncode, r.stdout.strip().splitlines()[-1:]))
    return res, [(0, ["ok"])] * 3, "exact"


@case("home_unwritable", "numba#5566,#4032; ilab-on-ocp#26", "no writable home", slow=True)
def _():
    """HOME and XDG_CACHE_HOME under /proc: right value"""
    e = child_env(tempfile.mkdtemp())
    e.update(HOME="/proc/none", XDG_CACHE_HOME="/proc/none/c")
    [e.pop(k, None) for k in ("STAX_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")]
    r = subprocess.run(
        sub_cmd("small"), cwd=ROOT, env=e, capture_output=True, text=True, timeout=120
    )
    return (r.returncode, r.stdout.strip().splitlines()[-1:]), (0, ["ok"]), "exact"


@case("no_compiler", "pytorch#95708,#154127,#167062", "no C compiler on the machine", slow=True)
def _():
    """Fallback with the right value, or a one-line error that says a compiler is needed"""
    d = tempfile.mkdtemp()
    e = child_env(d)
    e.update(PATH="/nonexistent", CC="/nonexistent/cc", CXX="/nonexistent/c++")
    r = subprocess.run(
        sub_cmd("small"), cwd=ROOT, env=e, capture_output=True, text=True, timeout=120
    )
    ok = (r.returncode == 0 and r.stdout.strip().endswith("ok")) or (
        r.returncode == 1 and "compiler" in r.stderr.lower().strip().splitlines()[-1]
    )
    return bool(ok), True, "exact"


@case("disk_full", "pytorch#121122; paritybench#24", "no room for temporary files", slow=True)
def _():
    """File size limited to 2 kB: right value or clean error; the next run without the limit is right (no poisoned cache)"""
    d = tempfile.mkdtemp()
    lim = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
    r = subprocess.run(
        sub_cmd("small"),
        cwd=ROOT,
        env=child_env(d),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lim,
    )
    q = subprocess.run(
        sub_cmd("small"), cwd=ROOT, env=child_env(d), capture_output=True, text=True, timeout=120
    )
    return (
        Multi(
            first=r.returncode in (0, 1),
            second=q.returncode == 0 and q.stdout.strip().endswith("ok"),
        ),
        True,
        "exact",
    )


@case(
    "tmp_odd_names",
    "pytorch#91005; torchdynamo#2004",
    "TMPDIR with blanks, quotes, umlauts",
    slow=True,
)
def _():
    """TMPDIR = a b'ü$x : right value"""
    d = os.path.join(tempfile.mkdtemp(), "a b'ü$x")
    os.makedirs(d)
    e = child_env(d)
    e["TMPDIR"] = d
    r = subprocess.run(
        sub_cmd("small"), cwd=ROOT, env=e, capture_output=True, text=True, timeout=120
    )
    return (r.returncode, r.stdout.strip().splitlines()[-1:]), (0, ["ok"]), "exact"


@case(
    "byteorder_warm_cache",
    "found while validating (jax 0.10.2: TypeError cold, garbage warm)",
    "foreign byte order after the cache is warm",
)
def _():
    """big-endian input: right value or an error, also when the same shape was compiled before; same for float16/int64"""
    bad = []
    for dt in ("f8", "f4", "i8", "i4"):
        f = jit(lambda z: z * 2)
        x = np.arange(1, 5).astype(dt)
        f(x)
        try:
            v = N(f(x.astype(">" + dt)))
        except Exception:
            continue
        if not np.array_equal(v, np.arange(1, 5) * 2):
            bad.append(dt)
    return bad, [], "exact"


@case(
    "mem_residual_view",
    "pytorch#126446",
    "a slice needed in backward keeps the whole array alive",
    level="better",
    slow=True,
)
def _():
    """h=sin(x@W) is 64 MB, only row 0 enters the loss: after vjp(jit(f)) resident memory grows by less than 20 MB"""
    r = run_sub("resview", timeout=200)
    return bool(json.loads(r.stdout.strip().splitlines()[-1])["mb"] < 20), True, "exact"


@case(
    "mem_residual_weight",
    "pytorch#141881,#148922",
    "saves a cheap function of a live input",
    level="better",
    slow=True,
)
def _():
    """loss=sum(sin(x@(w/2))), w 64 MB alive anyway: after vjp(jit(f)) growth below 20 MB (not another copy of w/2)"""
    r = run_sub("resweight", timeout=200)
    return bool(json.loads(r.stdout.strip().splitlines()[-1])["mb"] < 20), True, "exact"


@case(
    "index_2g",
    "triton#832; pytorch#186057; arrayfire#3731; flash-linear-attention#1082",
    "element index beyond 2^31",
    slow=True,
)
def _():
    """uint8 array of 2^31+8 zeros, one 7 near the end: z[-3], max of the reversed head, count of 7s, sum of the tail (needs ~8 GB)"""
    free = [int(l.split()[1]) for l in open("/proc/meminfo") if l.startswith("MemAvailable")][0]
    if free < 10e6:
        raise Missing("10 GB of free memory")
    r = run_sub("index2g", timeout=280)
    return (
        (r.returncode, r.stdout.strip().splitlines()[-1:] or [r.stderr[-200:]]),
        (0, ["ok"]),
        "exact",
    )
