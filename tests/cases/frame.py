"""Frame of the cases: registry, lazy access to the module under test, comparison, one run.

A case is a function that returns `(got, expected, tolerance)`; `got` may be `Multi({...})`, of which
every variant must match. Expected values come from a closed form, float64 NumPy, mpmath or finite
differences. A tolerance is a number (relative and absolute), a pair of them, or "exact" (NaN equals
NaN, the sign of zero counts, the dtype does not). Level "must": wrong is a fault. Level "better":
other systems often miss it, and a nicer convention is wanted.
"""

import importlib
import os
import signal
import subprocess
import sys
import traceback

import numpy as np

CASES = {}
MODNAME = os.environ.get("CASES_MODULE", "stax")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Missing(
    BaseException
):  # not an Exception: cases that accept 'it raises' must not accept absence
    pass


class Multi(dict):
    pass


class Ns:
    """Looks names up lazily in the module under test; absent -> Missing."""

    def __init__(self):
        self.root = None

    def load(self, name):
        if name == "jax":
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
            os.environ.setdefault("JAX_ENABLE_X64", "1")
        self.root = importlib.import_module(name)
        for sub in ("numpy", "scipy.special", "special", "nn", "random", "lax"):
            try:
                importlib.import_module(name + "." + sub)
            except Exception:
                pass

    def get(self, *paths):
        for p in paths:
            o = self.root
            try:
                for part in p.split("."):
                    o = getattr(o, part)
                return o
            except AttributeError:
                continue
        raise Missing(" / ".join(paths))


L = Ns()


class _Np:
    def __getattr__(self, k):
        return L.get("numpy." + k)


snp = _Np()


def api(n, *alts):
    return L.get(n, *alts)


def grad(f, *a, **k):
    return api("grad")(f, *a, **k)


def vag(f, *a, **k):
    return api("value_and_grad")(f, *a, **k)


def jit(f, *a, **k):
    return api("jit")(f, *a, **k)


def vmap(f, *a, **k):
    return api("vmap")(f, *a, **k)


def jvp(f, p, t):
    return api("jvp")(f, p, t)


def vjp(f, *p):
    return api("vjp")(f, *p)


def ckpt(f):
    return api("checkpoint")(f)


def hess(f):
    return api("hessian")(f)


def jac(f):
    return api("jacobian", "jacrev")(f)


def hvp(f, x, v):
    try:
        h = api("hvp")
    except Missing:
        return jvp(grad(f), (x,), (v,))[1]
    r = h(f, (x,), (v,))
    return r[1] if isinstance(r, tuple) and len(r) == 2 else r


def special(n):
    return api("scipy.special." + n, "special." + n, "numpy." + n, "nn." + n)


def nn(n):
    return api("nn." + n, "numpy." + n, "scipy.special." + n)


def key(s):
    return api("random.PRNGKey", "random.key")(s)


def A(x, dtype=None):
    return snp.asarray(np.asarray(x, dtype=dtype) if dtype is not None else np.asarray(x))


def N(x):
    """To numpy (bf16 and friends widened)"""
    x = np.asarray(x)
    if x.dtype.kind not in "biufcO":
        x = x.astype(np.float32)
    return x


def dts(x):
    return str(getattr(x, "dtype", np.asarray(x).dtype))


def both(f, *args):
    """The same function eager and under jit"""
    args = [A(a) if isinstance(a, (np.ndarray, list)) else a for a in args]
    return Multi(eager=f(*args), jit=jit(f)(*args))


def raises(fn, types=Exception, mention=()):
    try:
        fn()
    except types as e:
        msg = (type(e).__name__ + ": " + str(e)).lower()
        miss = [m for m in mention if not any(w in msg for w in m.split("|"))]
        return "raised" if not miss else "raised, but message lacks %s: %s" % (miss, msg[:160])
    except (Missing, KeyboardInterrupt):
        raise
    except BaseException as e:
        return "wrong type %s: %s" % (type(e).__name__, str(e)[:120])
    return "no error"


def case(id, src, kind, level="must", slow=False):
    def deco(f):
        assert id not in CASES, id
        CASES[id] = dict(
            fn=f, id=id, src=src, kind=kind, level=level, slow=slow, doc=(f.__doc__ or "").strip()
        )
        return f

    return deco


R = lambda s=0: np.random.default_rng(s)
inf, nan = np.inf, np.nan
F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
EPS32 = float(np.finfo(F32).eps)


def within(x, lo, hi):
    x = N(x)
    return bool(np.all(np.isfinite(x)) and np.all(x >= lo - 1e-9) and np.all(x <= hi + 1e-9))


def child_env(d):
    e = dict(os.environ, CASES_MODULE=MODNAME)
    e.update(
        XDG_CACHE_HOME=d,
        STAX_CACHE_DIR=d,
        HOME=d,
        JAX_COMPILATION_CACHE_DIR=d,
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="0",
        JAX_PLATFORMS="cpu",
        JAX_ENABLE_X64="1",
        PYTHONDONTWRITEBYTECODE="1",
    )
    return e


def sub_cmd(name):
    return [sys.executable, "-m", "tests.cases", "--child", name]


def run_sub(name, timeout):
    p = subprocess.Popen(
        sub_cmd(name),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        env=dict(os.environ, CASES_MODULE=MODNAME, JAX_PLATFORMS="cpu", JAX_ENABLE_X64="1"),
    )
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()  # forked grandchildren too: the group is ours
        raise
    r = subprocess.CompletedProcess(p.args, p.returncode, out, err)
    if r.returncode == 9:
        raise Missing(r.stderr.strip()[-80:])
    return r


def peak_kb():
    for l in open("/proc/self/status"):
        if l.startswith("VmHWM"):
            return int(l.split()[1])


def reset_peak():
    try:
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass


def rss_kb():
    for l in open("/proc/self/status"):
        if l.startswith("VmRSS"):
            return int(l.split()[1])


def same(got, exp, tol):
    g, e = N(got), np.asarray(exp)
    if g.shape != e.shape and not (g.ndim == 0 or e.ndim == 0):
        return False
    if e.dtype.kind in "OUS" or g.dtype.kind in "OUS":
        return bool(np.array_equal(g, e))
    rt, at = tol if isinstance(tol, tuple) else (tol, tol)
    with np.errstate(all="ignore"):
        return bool(np.allclose(g.astype(F64), e.astype(F64), rtol=rt, atol=at, equal_nan=True))


def agrees(got, exp, tol):
    if isinstance(got, Multi):
        bad = [k for k, v in got.items() if not agrees(v, exp, tol)[0]]
        return (not bad), (
            "variants wrong: %s" % ", ".join("%s=%s" % (k, short(got[k])) for k in bad)
            if bad
            else ""
        )
    if tol == "exact":
        if isinstance(exp, np.ndarray) or isinstance(exp, float):
            g, e = N(got), np.asarray(exp)
            ok = g.shape == e.shape and np.array_equal(g, e, equal_nan=True)
            if ok and e.dtype.kind == "f":
                z = e == 0
                ok = bool(np.array_equal(np.signbit(g[z]), np.signbit(e[z])))
        else:
            ok = got == exp
        return bool(ok), "" if ok else "got %s, expected %s" % (short(got), short(exp))
    ok = same(got, exp, tol)
    return ok, "" if ok else "got %s, expected %s" % (short(got), short(exp))


def short(x):
    try:
        s = (
            np.array2string(N(x), precision=8, threshold=12)
            if hasattr(x, "shape") or isinstance(x, np.ndarray)
            else repr(x)
        )
    except Exception:
        s = repr(x)
    return " ".join(s.split())[:220]


def run_one(c):
    try:
        got, exp, tol = c["fn"]()
        ok, why = agrees(got, exp, tol)
        return ("PASS" if ok else "FAIL"), why
    except Missing as e:
        return "MISSING", "no %s" % e
    except subprocess.TimeoutExpired as e:
        return "FAIL", "time limit %ss" % e.timeout
    except Exception as e:
        tb = traceback.extract_tb(e.__traceback__)
        ln = [f.lineno for f in tb if os.path.dirname(f.filename) == os.path.dirname(__file__)][-1:]
        return "ERROR", "%s: %s (line %s)" % (type(e).__name__, " ".join(str(e).split())[:200], ln)
