"""Programs that differ in numbers alone share a library, with the bits of programs of their own."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

import stax
import stax.compile as driver
import stax.numpy as snp
from stax import lax, nn
from stax.backends.c import forms
from stax.backends.c.run import CProgram
from stax.backends.c.toolchain import find_toolchain
from stax.programs.options import counters
from tests.compile.test_stored import start
from tests.programs import random_program

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

RNG = np.random.default_rng(0)
W = {
    "a": RNG.normal(size=(6, 16)).astype(np.float32),
    "b": RNG.normal(size=(16, 4)).astype(np.float32),
}


@pytest.fixture(autouse=True)
def no_forms_seen(monkeypatch):
    """Each test begins as a process does."""
    monkeypatch.setattr(forms, "_forms", {})
    monkeypatch.setattr(forms, "_first", {})


def batch(n):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 4, n)


def loss(w, x, label):
    h = np.tanh(x @ w["a"])
    h = h - h.mean(0)
    logits = h @ w["b"]
    return np.mean(
        nn.logsumexp(logits, axis=1) - snp.take_along_axis(logits, label[:, None], 1)[:, 0]
    )


def recurrent(w, x, label):
    def step(carry, row):
        carry = np.tanh(carry + row @ w["a"])
        return carry, carry.sum()

    return lax.scan(step, np.zeros(16, np.float32), x)[1].mean()


def ordered(w, x, label):
    rows = snp.sort(x, axis=0) * np.float32(x.shape[0])
    return np.cumsum(rows * x, axis=0)[-1].sum() + snp.max(x) + w["a"][label].sum()


def convolved(w, x, label):
    image = x.reshape(-1, 1, 2, 3)
    kernel = w["a"][:, :4].reshape(6, 1, 2, 2)
    return nn.relu(lax.conv(image, kernel, (1, 1), "SAME")).mean()


FUNCTIONS = [loss, recurrent, ordered, convolved]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_every_size_gives_the_bits_of_its_own_program(f, monkeypatch):
    general = stax.jit(stax.value_and_grad(f), dynamic_batch=True)
    sizes = [40, 41, 50, 7, 9, 2, 1, 130, 257]
    found = [general(W, *batch(n)) for n in sizes]
    monkeypatch.setattr(driver, "shared", lambda text, static: None)
    static = stax.jit(lambda *args: stax.value_and_grad(f)(*args))
    for n, (value, slopes) in zip(sizes, found, strict=True):
        expected, expected_slopes = static(W, *batch(n))
        assert value.tobytes() == expected.tobytes(), n
        assert all(slopes[k].tobytes() == expected_slopes[k].tobytes() for k in W), n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("extreme", [snp.max, snp.min])
def test_an_extreme_of_zeros_has_the_sign_of_its_own_program(extreme, dtype, monkeypatch):
    general = stax.jit(lambda x: (extreme(x), extreme(x, axis=1)), dynamic_batch=True)
    sizes = [5, 3, 7, 16, 9, 33, 1, 100, 64, 13, 11, 12]
    rng = np.random.default_rng(0)
    zeros = {n: np.where(rng.random((4, n)) < 0.5, 0.0, -0.0).astype(dtype) for n in sizes}
    found = [general(zeros[n]) for n in sizes]
    monkeypatch.setattr(driver, "shared", lambda text, static: None)
    static = stax.jit(lambda x: (extreme(x), extreme(x, axis=1)))
    for n, own in zip(sizes, found, strict=True):
        expected = static(zeros[n])
        assert [v.tobytes() for v in own] == [v.tobytes() for v in expected], n


def test_further_sizes_are_not_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))
    step = stax.jit(stax.value_and_grad(loss), dynamic_batch=True)
    sizes = [n for n in range(70, 210, 7) if n % 64]
    before, made = counters.compiler_runs, counters.compiled
    for n in sizes:
        step(W, *batch(n))
    assert counters.compiled - made == len(sizes) == 20
    assert counters.compiler_runs - before <= 6  # few forms, two or three libraries each


def test_library_calls_are_shared(tmp_path, monkeypatch):
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))
    f = stax.jit(lambda x: (snp.sort(x, axis=0), snp.fft.fft(x, axis=0)), dynamic_batch=True)
    before = counters.compiler_runs
    for n in (70, 71, 75, 90, 101, 130):
        x = RNG.normal(size=(n, 3))
        found = f(x)
        np.testing.assert_array_equal(found[0], np.sort(x, axis=0))
        np.testing.assert_allclose(found[1], np.fft.fft(x, axis=0), atol=1e-11)
    assert counters.compiler_runs - before == 2


def test_the_third_size_is_general_without_being_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("STAX_CACHE_DIR", str(tmp_path))  # nothing is found there
    f = stax.jit(lambda x: np.tanh(x).sum() / x.shape[0])
    for n in (80, 90):
        f(np.ones((n, 3)))
        assert not any(form.made.text for form in forms._forms.values())
    f(np.ones((100, 3)))
    assert any(form.made.text for form in forms._forms.values())
    assert f(np.full((101, 3), 0.5)) == pytest.approx(3 * np.tanh(0.5))


def test_constants_of_closures_are_numbers_of_the_form():
    x = np.linspace(-1.0, 1.0, 50, dtype=np.float32)
    for rate in (0.1, 0.3, 1 / 3, 1e-30, 45.678):
        found = stax.jit(lambda x, rate=rate: np.tanh(x * np.float32(rate)) + rate)(x)
        expected = np.tanh(x * np.float32(rate)) + rate
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(forms._forms) <= 2


def test_a_later_process_takes_general_programs_from_disk(tmp_path):
    script = tmp_path / "sizes.py"
    script.write_text(
        "import sys\nimport numpy as np\nimport stax\n"
        "from stax.programs.options import counters\n"
        "f = stax.jit(lambda x: np.tanh(x).sum(0) / x.shape[0], dynamic_batch=True)\n"
        "print([f(np.ones((n, 3))).tobytes().hex() for n in (80, 90, 100, 110)])\n"
        "print(counters.lowered, counters.compiler_runs, file=sys.stderr)\n"
    )
    first, made = start(tmp_path / "cache", script)
    again, none = start(tmp_path / "cache", script)
    assert first == again
    assert made == [4, 2]
    assert none == [0, 0]


def test_a_program_that_runs_within_another_of_its_library_keeps_its_numbers():
    inner = stax.jit(lambda x: np.sin(x).sum(0), dynamic_batch=True)

    def outer(x, again):
        half = stax.pure_callback(lambda v: again(v), stax.ShapeDtypeStruct((3,), x.dtype), x)
        return half + np.cos(x).sum(0)

    def nested(x, depth):
        again = (lambda v: np.asarray(run(np.asarray(v)[:-1], depth - 1))) if depth else inner
        return outer(x, again)

    def run(x, depth):
        return stax.jit(lambda v: nested(v, depth), dynamic_batch=True)(x)

    x = RNG.normal(size=(90, 3))
    expected, rows = np.zeros(3), x
    for _ in range(5):
        expected, rows = expected + np.cos(rows).sum(0), rows[:-1]
    expected = expected + np.sin(x[:-4]).sum(0)
    np.testing.assert_allclose(run(x, 4), expected, rtol=1e-12)


def test_threads_run_sizes_of_one_library_at_once():
    f = stax.jit(lambda x: (np.sqrt(x) * x.shape[0]).sum(0), dynamic_batch=True)
    inputs = [np.full((n, 300), 2.0) for n in range(200, 232)]
    expected = [f(x) for x in inputs]
    wrong = []

    def work(k):
        for _ in range(30):
            for x, e in list(zip(inputs, expected, strict=True))[k::4]:
                if f(x).tobytes() != e.tobytes():
                    wrong.append(x.shape)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_numbers_of_loops_can_vary_in_any_program():
    """Variables in place of some numbers of random programs change no bit of a result."""
    rng, general = np.random.default_rng(0), 0
    for seed in range(28):
        program = random_program(seed)
        lowered = stax.jit(program.fn).lower(*program.args)
        image = lowered.source.image
        parts = forms._NUMBER.split(image.text)
        loops = [k // 2 for k in range(1, len(parts), 2) if re.search(r"; \w+ < $", parts[k - 1])]
        chosen = [k for k in loops if rng.random() < 0.5]
        numbers = parts[1::2]
        try:
            text, order = forms._general(image.text, {k: (str(k),) for k in chosen})
        except forms._NotGeneral:
            continue
        values = [numbers[k] for k in order]
        sizes = tuple(forms._integer(v) for v in values if forms._is_integer(v))
        reals = tuple(forms._real(v) for v in values if not forms._is_integer(v))
        made = CProgram(image, {}, forms.Shared(text, sizes, reals))
        general += made.general is not None and bool(order)
        leaves = stax.tree_util.tree_leaves(program.args)
        for a, b in zip(made.run(leaves), CProgram(image, {}).run(leaves), strict=True):
            assert a.tobytes() == b.tobytes(), seed
    assert general >= 5


@pytest.mark.parametrize(
    ("literal", "kind", "value"),
    [
        ("7", "int", 7),
        ("2147483648", "long", 1 << 31),
        ("0x80000000", "unsigned int", 1 << 31),
        ("0xffffffffffffffff", "unsigned long", -1),
        ("5u", "unsigned int", 5),
        ("5ULL", "unsigned long long", 5),
        ("0x1fLL", "long long", 31),
        ("1.5", "double", 1.5),
        ("1e-3f", "float", float(np.float32(1e-3))),
        ("0x1.8p3f", "float", 12.0),
        ("0x1.8p3", "double", 12.0),
    ],
)
def test_numbers_keep_the_types_they_have_in_c(literal, kind, value):
    assert forms._kind(literal) == kind
    read = forms._integer if forms._is_integer(literal) else forms._real
    assert read(literal) == value


def test_an_interrupt_leaves_a_form_as_it_was(monkeypatch):
    """A number that a general text does not have may not count as one of its variables."""
    x = np.linspace(-1.0, 1.0, 50)
    made = forms._general

    def call(factor, term):
        return stax.jit(lambda x: np.tanh(x * factor) + term)(x)

    def interrupted(*given):
        raise KeyboardInterrupt

    for factor in (0.1, 0.3, 0.7):
        call(factor, 0.5)
    assert any(form.made.text for form in forms._forms.values())
    monkeypatch.setattr(forms, "_general", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(0.9, 0.25)
    monkeypatch.setattr(forms, "_general", made)
    np.testing.assert_allclose(call(0.9, 0.25), np.tanh(x * 0.9) + 0.25, rtol=1e-13)
    np.testing.assert_allclose(call(0.9, 0.125), np.tanh(x * 0.9) + 0.125, rtol=1e-13)
