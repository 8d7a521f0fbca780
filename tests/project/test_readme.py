"""The README's first screen, and the script that runs its commands on a fresh machine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [line for line in README.splitlines() if line.startswith("python3 -m venv")]


def test_two_commands() -> None:
    run, test = COMMANDS
    assert run.endswith("examples/digits.py")
    assert "[test]" in test
    assert "pytest" in test


def test_the_script_takes_its_commands_from_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert "grep '^python3 -m venv' README.md" in text
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", without_code(page.read_text()))
        if not (page.parent / target).exists()
    ]
    assert not broken
