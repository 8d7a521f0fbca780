"""The compiler and the kernel cache under every circumstance that a user's machine may offer."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from stax.backends.c import cache, toolchain
from stax.errors import CacheError, CompilationError, CompilerNotFoundError, DegradedWarning

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from stax.backends.c.toolchain import find_toolchain, toolchain_fault
found = find_toolchain()
if found is None:
    print("none:", toolchain_fault())
else:
    library = found.load("int answer(int x) { return x + 40; }")
    assert library.handle.answer(2) == 42
    print("ok")
"""
needs_compiler = pytest.mark.skipif(
    toolchain.find_toolchain() is None, reason="no C compiler on this machine"
)


def environment(**changes: str | None) -> dict[str, str]:
    names = ("STAX_CACHE_DIR", "STAX_CC", "CC", "XDG_CACHE_HOME", "TMPDIR")
    env = {k: v for k, v in os.environ.items() if k not in names}
    env["PYTHONPATH"] = str(ROOT)
    env.update({k: v for k, v in changes.items() if v is not None})
    return env


def start(env: dict[str, str], limit: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=env, text=True, preexec_fn=limit,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(env: dict[str, str], limit: Callable[[], None] | None = None) -> tuple[str, str]:
    process = start(env, limit)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip(), err


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# -- the cache ----------------------------------------------------------------------------------


def test_nothing_is_created_at_import(tmp_path: Path) -> None:
    code = "import stax.backends.c.toolchain, stax.backends.c.cache"
    env = environment(STAX_CACHE_DIR=str(tmp_path / "c"), TMPDIR=str(tmp_path))
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert not list(tmp_path.iterdir())


def test_blobs_come_back_and_damaged_ones_do_not(own_cache: Path) -> None:
    assert cache.load_blob("k") is None
    assert cache.store_blob("k", b"x" * 1000)
    assert cache.load_blob("k") == b"x" * 1000
    assert cache.store_blob("k", b"")
    assert cache.load_blob("k") == b""
    cache.store_blob("k", b"x" * 1000)
    (path,) = files(own_cache)
    whole = path.read_bytes()
    for damaged in (whole[:500], b"\0" * len(whole), b"", whole[:-1] + b"y", whole + b"z"):
        path.write_bytes(damaged)
        assert cache.load_blob("k") is None
    cache.store_blob("k", b"again")
    assert cache.load_blob("k") == b"again"


def test_the_store_is_private(own_cache: Path) -> None:
    cache.store_blob("k", b"1")
    (store,) = own_cache.iterdir()
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    store.chmod(0o777)
    cache.Cache(own_cache)
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_a_directory_others_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match="other users"):
        cache.Cache(tmp_path)
    tmp_path.chmod(0o700)
    if os.geteuid() == 0:
        store = tmp_path / "kernels-0"
        store.mkdir()
        os.chown(store, 1234, -1)
        with pytest.raises(CacheError, match="belongs to user 1234"):
            cache.Cache(tmp_path)


def test_a_link_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"kernels-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CacheError):
        cache.Cache(tmp_path)


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    store = cache.Cache(tmp_path, limit=10_000)
    old = time.time() - 10_000
    for k in range(10):
        store.store_blob(f"{k}", bytes(2000))
        path = max(files(tmp_path), key=lambda p: p.stat().st_mtime)
        os.utime(path, (old + k, old + k))
    assert store.load_blob("0") is not None  # a use makes it young again
    stale = store.directory / "part-left"
    stale.write_bytes(b"x")
    os.utime(stale, (old, old))
    store.evict()
    assert store.load_blob("1") is None
    assert store.load_blob("0") is not None
    assert store.load_blob("9") is not None
    assert not stale.exists()
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 10_000


def test_unusable_directory_degrades_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("STAX_CACHE_DIR", str(file / "below"))
    monkeypatch.setattr(cache, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.store_blob("k", b"1")
        assert cache.load_blob("k") == b"1"
        assert cache.store_blob("k2", b"2")
    assert [w.category for w in caught] == [DegradedWarning]
    assert "STAX_CACHE_DIR" in str(caught[0].message)


def test_keys_do_not_run_together() -> None:
    assert cache.content_key("ab", "c") != cache.content_key("a", "bc")
    assert cache.content_key("a") != cache.content_key("a", "")


# -- the compiler -------------------------------------------------------------------------------


@needs_compiler
def test_second_process_starts_no_compiler(tmp_path: Path) -> None:
    env = environment(STAX_CACHE_DIR=str(tmp_path))
    assert run(env) == ("ok", "")
    before = {path: path.stat().st_mtime_ns for path in files(tmp_path)}
    wrapper = tmp_path / "bin"
    wrapper.mkdir()
    env["PYTHONPATH"] = f"{wrapper}{os.pathsep}{ROOT}"
    (wrapper / "sitecustomize.py").write_text(
        "import subprocess\ndef no(*a, **k): raise SystemExit('a process was started')\n"
        "subprocess.run = subprocess.Popen = no\n"
    )
    assert run(env) == ("ok", "")
    after = {path: path.stat().st_mtime_ns for path in files(tmp_path) if path in before}
    assert after == before


@needs_compiler
@pytest.mark.parametrize("how", ["half", "zero", "empty", "garbage"])
def test_torn_files_are_rebuilt(tmp_path: Path, how: str) -> None:
    env = environment(STAX_CACHE_DIR=str(tmp_path))
    run(env)
    for path in files(tmp_path):
        data = path.read_bytes()
        half, zero = data[: len(data) // 2], b"\0" * len(data)
        garbage = b"\x7fELF" + os.urandom(len(data))
        path.write_bytes({"half": half, "zero": zero, "empty": b"", "garbage": garbage}[how])
    assert run(env) == ("ok", "")


@needs_compiler
def test_six_processes_share_one_empty_cache(tmp_path: Path) -> None:
    env = environment(STAX_CACHE_DIR=str(tmp_path))
    outputs = [process.communicate(timeout=120) for process in [start(env) for _ in range(6)]]
    assert outputs == [("ok\n", "")] * 6
    assert not [path for path in files(tmp_path) if path.name.startswith(("part-", "build-"))]


@needs_compiler
def test_unwritable_home(tmp_path: Path) -> None:
    out, err = run(environment(HOME="/proc/none", XDG_CACHE_HOME="/proc/none/c"))
    assert out == "ok"
    assert err.count("DegradedWarning") == 1


@needs_compiler
def test_odd_names(tmp_path: Path) -> None:
    odd = tmp_path / 'a b\'ü$x "q" %s'
    odd.mkdir()
    assert run(environment(STAX_CACHE_DIR=str(odd / "c"), TMPDIR=str(odd))) == ("ok", "")
    assert run(environment(HOME="/proc/none", TMPDIR=str(odd)))[0] == "ok"


@needs_compiler
def test_file_size_limit_does_not_poison_the_cache(tmp_path: Path) -> None:
    env = environment(STAX_CACHE_DIR=str(tmp_path))
    limit = (2048, 2048)
    out, err = run(env, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert out.startswith("none: no C compiler works here")
    assert err.count("DegradedWarning") <= 1
    assert run(env) == ("ok", "")


def test_no_compiler(tmp_path: Path) -> None:
    out, err = run(environment(PATH="/nonexistent", CC="/nonexistent/cc"))
    assert out.startswith("none: no C compiler was found")
    assert err == ""
    assert run(environment(STAX_CC="none"))[0].startswith("none: the C compiler is switched off")
    assert "STAX_CC=/nonexistent/cc" in run(environment(STAX_CC="/nonexistent/cc"))[0]


def test_require_toolchain_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAX_CC", "none")
    assert toolchain.find_toolchain() is None
    with pytest.raises(CompilerNotFoundError, match="STAX_CC"):
        toolchain.require_toolchain()


def test_a_compiler_that_does_not_work_is_passed_over(tmp_path: Path) -> None:
    for name in ("cc", "gcc", "clang"):
        broken = tmp_path / name
        broken.write_text("#!/bin/sh\necho nonsense >&2\nexit 3\n")
        broken.chmod(0o755)
    env = environment(PATH=str(tmp_path), STAX_CACHE_DIR=str(tmp_path / "c"))
    out, _ = run(env)
    assert out.startswith("none: no C compiler works here: cc:")


@needs_compiler
def test_refused_source_keeps_source_and_log(own_cache: Path) -> None:
    found = toolchain.require_toolchain()
    with pytest.raises(CompilationError, match=r"undeclared|undefined") as caught:
        found.compile("int f(void) { return nothing_here; }")
    assert "nothing_here" in caught.value.source
    assert "kernel.c" in caught.value.log
    assert not [path for path in files(own_cache) if path.suffix == ".so"]


@needs_compiler
def test_flags_keep_the_meaning_of_numbers() -> None:
    found = toolchain.require_toolchain()
    assert {"-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"} <= set(found.flags)
    assert not {"-ffast-math", "-fno-signed-zeros", "-Ofast"} & set(found.flags)
    assert found.key("a") != found.key("b")
    assert found.key("a") != found.key("a", opt="-O2")


@needs_compiler
def test_compiler_with_arguments_and_ccache_style(tmp_path: Path) -> None:
    gcc = toolchain.require_toolchain().command[0]
    wrapper = tmp_path / "my wrapper"
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    wrapper.chmod(0o755)
    base = {"STAX_CACHE_DIR": str(tmp_path / "c")}
    assert run(environment(STAX_CC=f"'{wrapper}' {gcc}", **base)) == ("ok", "")
    assert run(environment(STAX_CC=f"{gcc} -O1", **base)) == ("ok", "")


@needs_compiler
@pytest.mark.parametrize(
    ("refused", "quick", "libraries"),
    [("-nostdlib", True, False), ("-fira-region=one", False, True)],
)
def test_a_compiler_that_refuses_a_wished_flag_works_without(
    tmp_path: Path, refused: str, quick: bool, libraries: bool
) -> None:
    whole = toolchain.require_toolchain()
    wrapper = tmp_path / "picky"
    wrapper.write_text(
        f'#!/bin/sh\nfor w in "$@"; do [ "$w" = {refused} ] && exit 1; done\n'
        f'exec {whole.command[0]} "$@"\n'
    )
    wrapper.chmod(0o755)
    base = {"STAX_CACHE_DIR": str(tmp_path / "c"), "STAX_CC": str(wrapper)}
    assert run(environment(**base)) == ("ok", "")
    found = toolchain._probe((str(wrapper),))
    assert bool(found.quick) == (quick and bool(whole.quick))
    assert ("-nostdlib" in found.libraries) == (libraries and "-nostdlib" in whole.libraries)
    assert found.identity != whole.identity


@needs_compiler
def test_what_was_found_for_other_flags_is_not_remembered(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    probe = toolchain._probe
    monkeypatch.setattr(toolchain, "_probe", lambda c: asked.append(c) or probe(c))
    for _ in range(2):
        toolchain._find()
    assert len(asked) == 1
    monkeypatch.setattr(toolchain, "_FRAME_FLAGS", ("-fomit-frame-pointer",))
    found, _ = toolchain._find()
    assert len(asked) == 2
    assert found is not None
    assert "-fomit-frame-pointer" in found.flags


@needs_compiler
def test_an_evicted_library_is_built_again(own_cache: Path) -> None:
    found = toolchain.require_toolchain()
    source = "int seven(void) { return 7; }"
    path = found.compile(source)
    assert found.cached(source) == path
    path.unlink()
    assert found.cached(source) is None
    assert found.load(source).handle.seven() == 7


@needs_compiler
def test_a_directory_that_forbids_execution_is_left(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = toolchain.require_toolchain()
    monkeypatch.setattr(cache, "_places", {})
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(
        cache.Cache, "_maps_executable", lambda self: not self.directory.is_relative_to(own_cache)
    )
    with pytest.warns(DegradedWarning, match="noexec"):
        path = found.compile("int eight(void) { return 8; }")
    assert not path.is_relative_to(own_cache)
    assert found.load("int eight(void) { return 8; }").handle.eight() == 8


@pytest.mark.parametrize("features", ["flags=avx2 fma", "flags=avx2 avx512f fma"])
def test_loops_over_a_vector_are_written_out_where_registers_are_narrow(monkeypatch, features):
    command = toolchain.require_toolchain().command
    monkeypatch.setattr(toolchain, "cpu_identity", lambda: features)
    probed = toolchain._probe(command)
    assert ("-fpeel-loops" in probed.flags) == ("avx512f" not in features)


@needs_compiler
def test_parallel_regions_are_compiled_where_threads_can_use_them(own_cache: Path) -> None:
    loop = """
    int parallel_{0}(int n, int threads) {{
        int sum = 0;
        #pragma omp {1} num_threads(threads) reduction(+:sum)
        for (int i = 0; i < n; i++) sum += i;
        return sum;
    }}
    """
    whole = toolchain.require_toolchain()
    if not whole.openmp:
        pytest.skip("this compiler has no OpenMP")
    several, one = loop.format("a", "parallel for"), loop.format("b", "parallel for")
    assert whole.for_threads(several, 2) is whole
    alone = loop.format("c", "simd").replace("num_threads(threads)", "")
    assert not whole.for_threads(alone, 2).openmp
    single = whole.for_threads(one, 1)
    assert "-fopenmp-simd" in single.flags
    assert "-fopenmp" not in single.flags
    assert "-lgomp" not in single.libraries
    assert single.key(one) != whole.key(one)
    assert single.load(one).handle.parallel_b(5, 1) == 10
    assert whole.load(several).handle.parallel_a(5, 2) == 10
    assert whole.for_threads(several, 1) is whole, "a library that is there is taken"
