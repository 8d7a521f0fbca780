"""The C compiler: found, probed once, and called to turn source text into a loaded library.

Input: C source text and an optimisation level. Output: the path of a shared library in the disk
cache, or that library loaded. The compiler is the first of STAX_CC, CC, cc, gcc and clang that
builds and runs a small program; the flags it takes are found by trying them, and the answer is
kept in memory and on disk, so that a later process starts no compiler at all. The cache key of a
library holds source, flags, compiler version and CPU features: a library built for another
machine is never loaded. The compiler runs in a private directory with relative file names and
without a shell, so that no path can confuse it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stax.backends.c import cache
from stax.config import options
from stax.errors import CompilationError, CompilerNotFoundError
from stax.forked import Lock

__all__ = [
    "VECTOR_FLAGS",
    "Library",
    "Toolchain",
    "cpu_identity",
    "find_toolchain",
    "require_toolchain",
    "toolchain_fault",
]

_PROBE_VERSION = "8"  # of how the probe asks; what it asks for counts by itself
_TIMEOUT = 600.0
_BASE_FLAGS = ("-shared", "-fPIC", "-std=gnu11", "-w")
NUMERIC_FLAGS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv")
_WISHED_FLAGS: tuple[tuple[str, ...], ...] = (
    ("-fno-strict-aliasing",),
    # Threading jumps splits selections into more compares and blends when they are vectorised.
    ("-fno-thread-jumps",),
    # Copies of one vector constant in a loop become one register, which counts: such loops are
    # bound by the number of instructions in flight.
    ("-fgcse",),
    # What a function of the program leaves alone stays in registers around its calls.
    ("-fipa-ra",),
    ("-fno-semantic-interposition",),
    ("-fno-asynchronous-unwind-tables",),
    ("-fno-stack-protector",),
    ("-fno-ident",),
)
# Passes of GCC that find nothing left to do in kernels, and take a fifth of the compiler's time.
_QUICK_FLAGS: tuple[str, ...] = (
    "-fira-region=one",
    "-fno-forward-propagate",
    "-fno-cprop-registers",
    "-fno-tree-bit-ccp",
    "-fno-web",
    "-fno-dse",
    "-fno-tree-dse",
    "-fno-tree-sra",
    "-fno-tree-copy-prop",
    "-fno-ipa-modref",
    "-fno-ipa-reference",
    "-fno-ipa-pure-const",
    "-fno-compare-elim",
    "-fno-aggressive-loop-optimizations",
)
# For code written in vectors, with pointers that advance by themselves: what it needs of -O2
# is that additions take in products.
VECTOR_FLAGS = ("-ffp-contract=fast", "-fexpensive-optimizations", "-fno-ivopts")
# The process has the C library loaded: a library that leaves its names to it is linked in a third
# of the time.
_LEAN_LIBRARIES: tuple[str, ...] = ("-nostdlib", "-lgomp", "-lgcc")
_LIBRARIES: tuple[str, ...] = ("-lm",)
# GCC 12 leaves the frame of some functions that call nothing unaligned, where arrays lie below the
# stack pointer and are reached through copies of it, and moves them with instructions for aligned
# memory. Where frames take their space from the stack, they are aligned.
_FRAME_FLAGS = ("-mno-red-zone",)
# A vector of 64 bytes is several where registers are narrower: a loop over it is written out.
_NARROW_FLAGS = ("-fpeel-loops",)
_ENVIRONMENT_FAULTS = re.compile(
    r"No space left|File size limit|File too large|Disk quota|Read-only file system|"
    r"signal terminated program|Cannot create temporary|cannot execute|Killed|"
    r"virtual memory exhausted|out of memory|Permission denied|final close failed|Bus error",
    re.IGNORECASE,
)
_PROBE_SOURCE = r"""
#if defined(STAX_PROBE_OPENMP)
extern int omp_get_max_threads(void);
#endif
extern double fmod(double, double);
int stax_probe(double *x, int n) {
    double sum = fmod(x[0], 1.0);
    int threads = 1;
#if defined(STAX_PROBE_OPENMP)
    threads = omp_get_max_threads() > 0;
#pragma omp parallel for simd reduction(+ : sum) if (parallel : n > 1000000)
#else
#pragma omp simd reduction(+ : sum)
#endif
    for (int i = 0; i < n; i++) sum += __builtin_fma(x[i], x[i], 1.0);
    if (sum != 20.0 || threads != 1) return 0;
#if defined(__clang__)
    return 2;
#elif defined(__GNUC__)
    return 1;
#else
    return 3;
#endif
}
"""


class _EnvironmentFault(OSError):
    """The compiler failed for want of room or permission, not because of the source."""


@dataclass(frozen=True)
class Library:
    """A loaded shared library."""

    path: Path
    handle: ctypes.CDLL

    def address(self, name: str) -> int:
        """Return the address of the function or object `name`."""
        address = ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value
        assert address is not None
        return address


@dataclass(frozen=True)
class Toolchain:
    """A working C compiler with the flags it takes."""

    command: tuple[str, ...]
    kind: str
    version: str
    cpu: str
    flags: tuple[str, ...]
    openmp: bool
    native: bool
    quick: tuple[str, ...] = ()
    libraries: tuple[str, ...] = _LIBRARIES

    @property
    def identity(self) -> str:
        """Text that changes whenever the code made from one source could change."""
        words = (*self.command, self.kind, self.version, self.cpu, *self.flags)
        return "\n".join((*words, *self.quick, *self.libraries))

    def for_threads(
        self, source: str, threads: int, *, opt: str = "-O1", extra: Sequence[str] = ()
    ) -> Toolchain:
        """The toolchain for a program that may use `threads` threads.

        Where it uses one, or has no parallel loop, it is compiled without parallel regions: these
        cost the compiler a tenth of its time and every loop a function of its own. The bits are
        the same. A threaded library that is in the cache anyway is taken as it is.
        """
        if not self.openmp or (threads > 1 and "#pragma omp parallel" in source):
            return self
        if self.cached(source, opt=opt, extra=extra) is not None:
            return self
        return replace(
            self,
            flags=tuple("-fopenmp-simd" if f == "-fopenmp" else f for f in self.flags),
            libraries=tuple(name for name in self.libraries if name != "-lgomp"),
            openmp=False,
        )

    def key(self, source: str, *, opt: str = "-O1", extra: Sequence[str] = ()) -> str:
        """Return the cache key of the library made from `source`."""
        return cache.content_key("library", self.identity, opt, *extra, source)

    def cached(self, source: str, *, opt: str = "-O1", extra: Sequence[str] = ()) -> Path | None:
        """Return the verified cached library of `source`, or None; never runs the compiler."""
        return cache.load_library_path(self.key(source, opt=opt, extra=extra))

    def compile(
        self,
        source: str,
        *,
        opt: str = "-O1",
        extra: Sequence[str] = (),
        missing: Callable[[], None] | None = None,
    ) -> Path:
        """Return the path of the shared library made from C `source`.

        Args:
          source: one translation unit; exported functions are its non-static ones.
          opt: optimisation level flag.
          extra: further flags (include paths, libraries), put last.
          missing: called first where the cache has no such library; may build it.

        Raises:
          CompilationError: the compiler refused the source.
          CompilerNotFoundError: it could not run here (no room, no permission, no memory).
        """
        key = self.key(source, opt=opt, extra=extra)
        path = cache.load_library_path(key)
        if path is None and missing is not None:
            missing()
            path = cache.load_library_path(key)
        path = path or self._build(source, opt, extra)
        if "keep" in options().debug:
            with contextlib.suppress(OSError):
                path.with_suffix(".c").write_text(source, encoding="utf-8")
        return path

    def _build(self, source: str, opt: str, extra: Sequence[str]) -> Path:
        fault: OSError | None = None
        for place in cache.library_caches():
            try:
                return self.build_in(place, source, opt=opt, extra=extra)
            except OSError as error:
                fault = error
        raise CompilerNotFoundError(
            f"the C compiler {self.command[0]} cannot work here: {fault or 'no directory'}",
            hint="set STAX_CACHE_DIR to a writable directory with room, or use backend='numpy'",
        )

    def build_in(
        self, place: cache.Cache, source: str, *, opt: str = "-O1", extra: Sequence[str] = ()
    ) -> Path:
        """Compile `source` into one cache, as `compile`; `OSError` where that has no room."""
        # clang leaves loops scalar at -O1 even where a pragma asks for vectors.
        level = "-O2" if self.kind == "clang" and opt == "-O1" else opt
        passes = self.quick if opt == "-O1" else ()
        command = (*self.command, *self.flags, level, *passes)
        key = self.key(source, opt=opt, extra=extra)
        with place.build_directory() as directory:
            libraries = (*extra, *self.libraries)
            return place.install(key, _run_compiler(command, libraries, source, directory))

    def load(
        self,
        source: str,
        *,
        opt: str = "-O1",
        extra: Sequence[str] = (),
        missing: Callable[[], None] | None = None,
    ) -> Library:
        """Return the library made from C `source`, loaded; arguments and errors as `compile`."""
        limit_spinning()
        key = self.key(source, opt=opt, extra=extra)
        fault: OSError | None = None
        for _ in range(3):
            path = self.compile(source, opt=opt, extra=extra, missing=missing)
            try:
                return Library(path, ctypes.CDLL(str(path)))
            except OSError as error:
                # Evicted meanwhile, or on a file system that forbids mapping code.
                fault = error
                for place in cache.open_caches():
                    if path.parent == place.directory:
                        place.discard(key)
                        if "permitted" in str(error) or "Permission" in str(error):
                            place.executable = False
        raise CompilerNotFoundError(f"a compiled library cannot be loaded: {fault}")


def limit_spinning() -> None:
    """Let idle threads of GNU OpenMP sleep soon, unless the user has chosen otherwise.

    By default they spin for milliseconds; where other programs want the cores, every loop then
    waits for a thread that is not scheduled.  The variable is read when the library is loaded.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "5000"


def _run_compiler(
    command: Sequence[str], libraries: Sequence[str], source: str, directory: Path
) -> Path:
    """Compile `source` inside `directory` and return the library's path there."""
    (directory / "kernel.c").write_text(source, encoding="utf-8")
    environment = dict(os.environ, TMPDIR=".", TMP=".", TEMP=".", LC_ALL="C")
    full = [*command, "-o", "kernel.so", "kernel.c", *libraries]
    try:
        done = subprocess.run(
            full,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CompilationError(
            f"the C compiler did not finish within {_TIMEOUT:.0f} s", source=source
        ) from error
    log = done.stdout.decode("utf-8", "replace")
    library = directory / "kernel.so"
    if done.returncode == 0 and library.is_file() and library.stat().st_size > 0:
        return library
    if done.returncode < 0 or _ENVIRONMENT_FAULTS.search(log):
        found = next((line for line in log.splitlines() if _ENVIRONMENT_FAULTS.search(line)), "")
        raise _EnvironmentFault(found.strip() or f"{command[0]} ended with {done.returncode}")
    first = next((line for line in log.splitlines() if "error" in line), _last_line(log))
    raise CompilationError(
        f"the C compiler refused generated code ({first.strip()})",
        source=source,
        log=f"$ {shlex.join(full)}\n{log}",
        hint="this is a fault in stax; .source and .log hold what a report needs. "
        "backend='numpy' runs the program without the compiler",
    )


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# -- the machine --------------------------------------------------------------------------------


@functools.cache
def cpu_identity() -> str:
    """Return text that names this CPU's instruction set (model and feature flags)."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                fields.setdefault(name.strip(), value.strip())
                if not line.strip() and fields.keys() & {"flags", "Features"}:
                    break
    except OSError:
        pass
    wanted = (
        *("vendor_id", "cpu family", "model", "model name", "flags"),
        *("Features", "CPU implementer", "CPU part", "CPU variant", "isa"),
    )
    parts = [
        f"{name}={' '.join(sorted(fields[name].split()))}" for name in wanted if name in fields
    ]
    if sys.platform == "darwin":
        for name in ("machdep.cpu.brand_string", "machdep.cpu.features", "hw.cpufamily"):
            parts.append(f"{name}={_sysctl(name)}")
    return "; ".join([platform.machine(), sys.platform, *parts])


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        return done.stdout.strip()
    return ""


# -- finding ------------------------------------------------------------------------------------

_found: dict[tuple[str | None, ...], tuple[Toolchain | None, str]] = {}
_find_lock = Lock()


def _search() -> tuple[Toolchain | None, str]:
    names = ("STAX_CC", "CC", "PATH", "STAX_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    key = tuple(os.environ.get(name) for name in names)
    with _find_lock:
        if key not in _found:
            _found[key] = _find()
        return _found[key]


def find_toolchain() -> Toolchain | None:
    """Return the C compiler to use, or None when there is none that works.

    The environment is consulted in the order STAX_CC, CC, cc, gcc, clang. `STAX_CC=none` switches
    the compiler off; a STAX_CC that does not work is not replaced by another compiler.
    """
    return _search()[0]


def toolchain_fault() -> str:
    """Return why `find_toolchain` gives None, in one line; empty when there is a compiler."""
    return _search()[1]


def require_toolchain() -> Toolchain:
    """Return the C compiler; raises `CompilerNotFoundError` when there is none that works."""
    toolchain, fault = _search()
    if toolchain is None:
        raise CompilerNotFoundError(
            fault, hint="install gcc or clang, or set STAX_CC; backend='numpy' needs no compiler"
        )
    return toolchain


def _candidates() -> list[tuple[str, tuple[str, ...]]]:
    explicit = os.environ.get("STAX_CC")
    wishes = [explicit] if explicit else [os.environ.get("CC") or "", "cc", "gcc", "clang"]
    found: list[tuple[str, tuple[str, ...]]] = []
    for wish in wishes:
        if not wish:
            continue
        whole = shutil.which(wish)
        if whole:
            command: tuple[str, ...] = (os.path.abspath(whole),)
        else:
            try:
                words = shlex.split(wish)
            except ValueError:
                continue
            program = shutil.which(words[0]) if words else None
            if program is None:
                continue
            command = (os.path.abspath(program), *words[1:])
        if all(command != known for _, known in found):
            found.append((wish, command))
    return found


def _find() -> tuple[Toolchain | None, str]:
    explicit = os.environ.get("STAX_CC")
    if explicit == "none":
        return None, "the C compiler is switched off (STAX_CC=none)"
    faults: list[str] = []
    for wish, command in _candidates():
        stamp = (_PROBE_VERSION, _wishes(), cpu_identity(), *_stamp(command), sys.executable)
        key = cache.content_key("toolchain", *stamp)
        toolchain = _remembered(key)
        if toolchain is None:
            try:
                toolchain = _probe(command)
            except (OSError, CompilationError, subprocess.SubprocessError) as error:
                faults.append(f"{wish}: {str(error).splitlines()[0]}")
                continue
            record = {name: getattr(toolchain, name) for name in Toolchain.__dataclass_fields__}
            cache.store_blob(key, json.dumps(record).encode())
        return toolchain, ""
    if faults:
        return None, "no C compiler works here: " + "; ".join(faults)
    looked = f"STAX_CC={explicit}" if explicit else "CC, cc, gcc, clang"
    return None, f"no C compiler was found (looked for {looked})"


def _wishes() -> str:
    """Return all that a probe tries: what was found for other wishes does not hold."""
    flags = (_BASE_FLAGS, NUMERIC_FLAGS, _WISHED_FLAGS, _QUICK_FLAGS, VECTOR_FLAGS)
    frames = (_LEAN_LIBRARIES, _LIBRARIES, _FRAME_FLAGS, _NARROW_FLAGS)
    return repr((_PROBE_SOURCE, flags, frames))


def _stamp(command: Sequence[str]) -> list[str]:
    """Return words that change when the compiler is replaced by another version."""
    words: list[str] = []
    for word in command:
        words.append(word)
        path = shutil.which(word)
        if path:
            real = os.path.realpath(path)
            with contextlib.suppress(OSError):
                info = os.stat(real)
                words += [real, str(info.st_size), str(info.st_mtime_ns)]
    return words


def _remembered(key: str) -> Toolchain | None:
    data = cache.load_blob(key)
    if data is None:
        return None
    try:
        record = json.loads(data)
        record["command"] = tuple(record["command"])
        for name in ("flags", "quick", "libraries"):
            record[name] = tuple(record[name])
        return Toolchain(**record)
    except (ValueError, KeyError, TypeError):
        return None


def _probe(command: tuple[str, ...]) -> Toolchain:
    """Return the toolchain of `command` with the flags it takes; raises when it does not work."""
    version = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout.strip()
    base = (*_BASE_FLAGS, *NUMERIC_FLAGS)
    native = (("-march=native",), ("-mcpu=native",))
    parallel = (("-fopenmp", "-DSTAX_PROBE_OPENMP"), ("-fopenmp-simd",))
    wishes = _WISHED_FLAGS
    if "avx512f" not in cpu_identity():
        wishes = (*wishes, _NARROW_FLAGS)
    if platform.machine().lower() in ("x86_64", "amd64"):
        wishes = (*wishes, _FRAME_FLAGS)
    wished = tuple(flag for group in wishes for flag in group)
    whole = (*base, *wished, *native[0], *parallel[0])
    quick, libraries = _QUICK_FLAGS, _LEAN_LIBRARIES
    kind = _attempt(command, (*whole, *quick), libraries)
    if kind is not None:
        chosen = [*wished, *native[0], *parallel[0]]
    else:
        kind = _attempt(command, base, _LIBRARIES, raising=True)
        chosen = []
        for group in wishes:
            if _attempt(command, (*base, *chosen, *group)) is not None:
                chosen += group
        for alternatives in (native, parallel):
            for flags in alternatives:
                if _attempt(command, (*base, *chosen, *flags)) is not None:
                    chosen += flags
                    break
        if _attempt(command, (*base, *chosen, *quick)) is None:
            quick = ()
        if _attempt(command, (*base, *chosen), libraries) is None:
            libraries = _LIBRARIES
    return Toolchain(
        command=command,
        kind=kind or "other",
        version=version.partition("\n")[0] or "unknown",
        cpu=cpu_identity(),
        flags=(*base, *(flag for flag in chosen if not flag.startswith("-D"))),
        openmp="-fopenmp" in chosen,
        native=any(flag.endswith("=native") for flag in chosen),
        quick=quick,
        libraries=libraries,
    )


def _attempt(
    command: Sequence[str],
    flags: Sequence[str],
    libraries: Sequence[str] = _LIBRARIES,
    *,
    raising: bool = False,
) -> str | None:
    """Return the compiler's kind if the probe builds and runs under `flags`, else None."""
    fault: Exception | None = None
    for place in cache.library_caches():
        try:
            with place.build_directory() as directory:
                path = _run_compiler((*command, *flags, "-O1"), libraries, _PROBE_SOURCE, directory)
                handle = ctypes.CDLL(str(path))
                return _probe_kind(handle)
        except CompilationError as error:
            fault = error
            break
        except OSError as error:
            fault = error
    if raising:
        raise fault or OSError("no directory can hold a compiled file")
    return None


def _probe_kind(handle: ctypes.CDLL) -> str | None:
    numbers = (ctypes.c_double * 4)(0.0, 4.0, 0.0, 0.0)
    code = handle.stax_probe(ctypes.byref(numbers), ctypes.c_int(4))
    return {1: "gcc", 2: "clang", 3: "other"}.get(code)
