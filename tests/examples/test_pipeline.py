"""docs/pipeline.md: its Python blocks run in order and print the text blocks that follow them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"
BLOCK = re.compile(r"```python\n(.*?)```\n```text\n(.*?)```\n", re.DOTALL)


def replayed(text: str) -> str:
    """The page with every text block replaced by what the block above it prints."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts, end = [], 0
    for match in BLOCK.finditer(text):
        # Blank lines in front keep the page's own line numbers in what is printed.
        before = text.count("\n", 0, match.start(1))
        code = compile("\n" * before + match[1], PAGE.name, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        parts += [text[end : match.start(2)], printed.getvalue()]
        end = match.end(2)
    return "".join([*parts, text[end:]])


def test_the_page_prints_what_it_says(request):
    text = PAGE.read_text()
    assert len(BLOCK.findall(text)) == text.count("```python") == text.count("```text")
    if request.config.getoption("--update-golden"):
        for _ in range(2):  # longer text moves the line numbers in the text below it
            text = replayed(text)
        PAGE.write_text(text)
    assert replayed(text) == text
