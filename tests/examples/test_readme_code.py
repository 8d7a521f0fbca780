"""The README's first program runs and prints what it is there to show."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_first_program_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("(8, 32)")
    assert printed[1] == "(32, 1)"
    assert any("saved" in line for line in printed[2:])
