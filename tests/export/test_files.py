"""The file of an exported function: read by another process, and refused when it is not whole."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.export import artifact
from stax.programs import records

ROOT = Path(__file__).resolve().parents[2]
X = np.linspace(-1, 1, 12).reshape(3, 4)


def model(x: Any) -> Any:
    return np.tanh(x @ np.arange(8.0).reshape(4, 2)).sum(0)


def in_another_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    full = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env=full, capture_output=True, text=True, check=False,
    )  # fmt: skip


LOADING = """
import sys
import numpy as np, stax
from stax.core import staging
staging.StagingTrace.__init__ = lambda *args, **kwargs: sys.exit("traced")
f = stax.export.load(PATH)
x = np.linspace(-1, 1, 12).reshape(3, 4)
print(f.call(x).tobytes().hex(), f.vjp_order)
"""


def test_another_process_calls_it_without_tracing(tmp_path: Path) -> None:
    path = tmp_path / "model.stax"
    exported = stax.export(model, vjp_order=1)(X)
    exported.save(path)
    code = f"PATH = {str(path)!r}\n{LOADING}"
    expected = f"{exported.call(X).tobytes().hex()} 1\n"
    done = in_another_process(code)
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


def test_without_a_compiler_it_runs_by_numpy_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "model.stax"
    stax.export(lambda x: model(x) + np.ones(20_000)[:2])(X).save(path)
    code = f"PATH = {str(path)!r}\n{LOADING}"
    done = in_another_process(code, STAX_CC="none")
    assert done.returncode == 0, done.stderr
    assert "exported functions run by NumPy" in done.stderr
    found = np.frombuffer(bytes.fromhex(done.stdout.split()[0]))
    np.testing.assert_allclose(found, model(X) + 1, rtol=1e-12)


def test_equal_functions_give_equal_files_and_saving_replaces_them(tmp_path: Path) -> None:
    exported = stax.export(model, vjp_order=1)(X)
    blob = exported.serialize()
    assert blob == stax.export(model, vjp_order=1)(X).serialize()
    assert blob == stax.export.deserialize(bytearray(blob)).serialize()
    path = tmp_path / "model.stax"
    path.write_bytes(b"something else")
    exported.save(str(path))
    assert path.read_bytes() == blob
    assert [p.name for p in tmp_path.iterdir()] == ["model.stax"]
    with pytest.raises(FileNotFoundError):
        exported.save(tmp_path / "nowhere" / "model.stax")


def test_it_can_be_pickled_and_copied() -> None:
    exported = stax.export(model, vjp_order=1)(X)
    for again in (pickle.loads(pickle.dumps(exported)), copy.deepcopy(exported)):
        assert again.call(X).tobytes() == exported.call(X).tobytes()
        assert again.vjp_order == 1


def test_the_order_can_be_chosen_when_saving() -> None:
    exported = stax.export.deserialize(stax.export(np.sin)(0.5).serialize(vjp_order=1))
    assert stax.grad(exported.call)(0.5) == pytest.approx(np.cos(0.5))
    with pytest.raises(errors.ExportError, match=r"vjp_order=1.*vjp_order=2"):
        exported.serialize(vjp_order=2)


def test_a_record_holds_every_field_of_an_image() -> None:
    """What is left out would be lost without a word, and a program run without it."""

    def f(x: Any, i: Any) -> Any:
        return (
            np.sort(x)[i],
            np.linalg.cholesky(np.eye(2) + x),
            stax.lax.igamma_grad_a(x, x) + np.ones(2),
        )

    image = stax.export(f)(np.ones((2, 2)), np.arange(2))._unit.image
    record = records.image_record(image, arrays := {})
    fields = {field.name for field in dataclasses.fields(image)}
    assert record.keys() | {"functions", "body"} == fields
    again = records.image_from(json.loads(json.dumps(record)), image.functions, image.body, arrays)
    for name in sorted(fields):
        assert len(str(getattr(again, name))) > 2, f"{name} is empty, so this test shows nothing"
        if name in ("constants", "fallbacks", "checked", "calls"):  # arrays, equations, short paths
            assert len(getattr(again, name)) == len(getattr(image, name))
        else:
            assert getattr(again, name) == getattr(image, name)


def test_what_programs_share_is_stored_once() -> None:
    table = np.arange(50_000.0)
    exported = stax.export(lambda x: (x * table).sum(), vjp_order=1)(table)
    with zipfile.ZipFile(io.BytesIO(exported.serialize())) as archive:
        arrays = [name for name in archive.namelist() if name.startswith("arrays/")]
    assert len(arrays) == 1


def test_nothing_in_it_is_a_pickle() -> None:
    class Loud:
        def __reduce__(self) -> Any:
            return pytest.fail, ("a pickle was loaded",)

    blob = pickle.dumps(Loud())
    with pytest.raises(errors.ExportError, match="not the file of an exported function"):
        stax.export.deserialize(blob)


def rewritten(
    blob: bytes, change: Callable[[dict[str, bytes]], None], *, sign: bool = True
) -> bytes:
    """The archive with its members changed and, to get past the checksum, signed again."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    if sign:
        files["checksum"] = artifact._checksum(files).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def in_manifest(**entries: Any) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        manifest = json.loads(files["manifest.json"])
        files["manifest.json"] = json.dumps({**manifest, **entries}).encode()

    return change


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.pop(name) and None


def with_context_of_another_version(files: dict[str, bytes]) -> None:
    name = "programs/0/functions.c"
    files[name] = files[name].replace(b"int32_t threads;", b"int64_t threads;")


BAD_FILES = {
    "empty": (lambda blob: b"", "not the file of an exported function"),
    "text": (lambda blob: b"hello", "not the file of an exported function"),
    "another archive": (
        lambda blob: rewritten(blob, lambda files: files.clear(), sign=False),
        "not the file of an exported function",
    ),
    "another kind": (
        lambda blob: rewritten(blob, in_manifest(kind="weights")),
        "not the file of an exported function",
    ),
    "torn": (lambda blob: blob[: len(blob) // 2], "is damaged"),
    "a flipped bit": (
        lambda blob: blob[:200] + bytes([blob[200] ^ 1]) + blob[201:],
        "damaged|not the file",
    ),
    "changed": (
        lambda blob: rewritten(blob, in_manifest(name="g"), sign=False),
        "checksum is not that of its contents",
    ),
    "older": (lambda blob: rewritten(blob, in_manifest(format=0)), "format 0.*format 2"),
    "of another layout": (
        lambda blob: rewritten(blob, with_context_of_another_version),
        "was written by stax",
    ),
    "without code": (lambda blob: rewritten(blob, without("programs/0/body.c")), "is damaged"),
    "without arguments": (lambda blob: rewritten(blob, in_manifest(arguments=[])), "is damaged"),
    "without a structure": (lambda blob: rewritten(blob, in_manifest(in_tree=[])), "damaged"),
    "with half a structure": (
        lambda blob: rewritten(blob, in_manifest(in_tree=[["tuple", 3, None], None])),
        "damaged",
    ),
    "with an unknown class": (
        lambda blob: rewritten(blob, in_manifest(in_tree=[["os:_Environ", 1, None], None])),
        "no such container class is known in os",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    spoil, message = BAD_FILES[kind]
    path = tmp_path / "bad.stax"
    path.write_bytes(spoil(stax.export(model)(X).serialize()))
    with pytest.raises(errors.ExportError, match=message):
        stax.export.load(path)


def test_containers_that_no_file_can_name_are_refused_when_saving() -> None:
    with pytest.raises(errors.ExportError, match=r"static data .*of type type"):
        stax.export(lambda d: d["a"] * 2)(defaultdict(list, a=np.ones(2))).serialize()

    @stax.tree_util.register_pytree_node_class
    class Local:
        def __init__(self, value: Any) -> None:
            self.value = value

        def tree_flatten(self) -> Any:
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

    exported = stax.export(lambda v: v.value * 2)(Local(np.ones(2)))
    assert exported.call(Local(np.ones(2))).tolist() == [2, 2]
    with pytest.raises(errors.ExportError, match="cannot be found again by its name"):
        exported.serialize()


def test_a_class_that_is_not_imported_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shapes_of_the_test.py").write_text(
        "from typing import NamedTuple\nclass Box(NamedTuple):\n    a: float\n    b: float\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    box = importlib.import_module("shapes_of_the_test").Box
    blob = stax.export(lambda v: box(v.b, v.a))(box(1.0, 2.0)).serialize()
    assert stax.export.deserialize(blob).call(box(3.0, 4.0)) == (4.0, 3.0)
    monkeypatch.delitem(sys.modules, "shapes_of_the_test")
    with pytest.raises(errors.ExportError, match="import shapes_of_the_test"):
        stax.export.deserialize(blob)
    assert "shapes_of_the_test" not in sys.modules
