"""Random programs: one state of the package has one first seed, and a failure names its own."""

from __future__ import annotations

import pytest

from tests.fuzzing import first_seed, fuzz


@pytest.fixture
def package(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "graph.py").write_text("x = 1\n")
    (tmp_path / "pool.c").write_text("int x;\n")
    return tmp_path


@pytest.fixture(autouse=True)
def of_the_package(monkeypatch):
    monkeypatch.delenv("STAX_FUZZ_SEED", raising=False)


def test_the_first_seed_follows_from_the_files_of_the_package(package):
    first = first_seed(package)
    assert first == first_seed(package)
    cached = package / "core" / "graph.pyc"
    cached.write_bytes(b"of another run")
    assert first == first_seed(package)
    (package / "core" / "graph.py").write_text("x = 2\n")
    second = first_seed(package)
    (package / "pool.c").write_text("int y;\n")
    third = first_seed(package)
    (package / "core" / "graph.py").rename(package / "core" / "edge.py")
    assert len({first, second, third, first_seed(package)}) == 4


def test_the_environment_gives_another(monkeypatch, package):
    monkeypatch.setenv("STAX_FUZZ_SEED", "742710")
    assert first_seed(package) == first_seed() == 742710


def test_as_many_programs_as_the_rate_allows():
    seen = []
    assert fuzz(seen.append, 0.5, 20.0) == 10
    assert seen == [*range(first_seed(), first_seed() + 10)]
    assert fuzz(seen.append, 100.0, 0.0) == 1


def test_a_failure_names_its_seed(monkeypatch):
    monkeypatch.setenv("STAX_FUZZ_SEED", "40")

    def check(seed):
        if seed == 42:
            raise ValueError("of this program")

    with pytest.raises(AssertionError, match=r"STAX_FUZZ_SEED=42 .*\nof this program") as caught:
        fuzz(check, 1.0, 10.0)
    assert isinstance(caught.value.__cause__, ValueError)
