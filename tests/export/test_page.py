"""docs/export.md: its Python blocks print what follows them, and its C program runs."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
BLOCK = re.compile(r"```(python|c)\n(.*?)```\n+(?:```text\n(.*?)```\n)?", re.DOTALL)


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    kinds = []
    for match in BLOCK.finditer(text):
        kind, code, wanted = match.groups()
        kinds.append(kind)
        if kind == "python":
            lines = "\n" * text.count("\n", 0, match.start(2))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(lines + code, PAGE.name, "exec"), namespace)
            found = printed.getvalue()
        else:
            compiler = shutil.which("gcc") or shutil.which("clang")
            if compiler is None:
                continue
            Path("model/main.c").write_text(code)
            flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp-simd"]
            command = [compiler, *flags, "main.c", "model.c", "-o", "main", "-lm"]
            subprocess.run(command, cwd="model", check=True)
            found = subprocess.run(["model/main"], capture_output=True, text=True).stdout
        assert found == (wanted or "")
    assert kinds == ["python"] * 5 + ["c"]
