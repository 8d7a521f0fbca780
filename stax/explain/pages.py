"""A report as one HTML page.

Input: the report's tables and the bytes alive at every step.  Output: the text of a page that
needs nothing else: the tables, and the live bytes as an inline drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """\
body { font: 14px/1.5 sans-serif; margin: 2em auto; max-width: 70em; color: #222; }
table { border-collapse: collapse; margin: .5em 0 1.5em; }
th, td { text-align: left; padding: .15em .8em .15em 0; border-bottom: 1px solid #ddd; }
td { font-family: monospace; font-size: 12px; vertical-align: top; }
h2 { font-size: 1.1em; margin-bottom: .2em; }
p { margin: .1em 0; }
"""
_WIDTH, _HEIGHT = 800, 160


def page(
    name: str,
    sections: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]],
    notes: Sequence[str],
    live: Sequence[int],
) -> str:
    """The page's text."""
    parts = [
        "<!doctype html>",
        f"<html><head><meta charset='utf-8'><title>{escape(name)}</title>",
        f"<style>{_STYLE}</style></head><body>",
    ]
    for title, lines, rows in sections:
        if not lines and len(rows) < 2:
            continue
        parts.append(f"<h2>{escape(title)}</h2>")
        parts += [f"<p>{escape(line)}</p>" for line in lines]
        if len(rows) >= 2:
            parts.append(_table(rows))
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    if any(live):
        parts.append("<h2>bytes alive at each step</h2>")
        parts.append(drawing(live))
    return "\n".join([*parts, "</body></html>", ""])


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = ["<table>", "<tr>" + "".join(f"<th>{escape(c)}</th>" for c in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rest]
    return "\n".join([*lines, "</table>"])


def drawing(live: Sequence[int]) -> str:
    """Steps from left to right, the bytes alive in each as a bar; the largest is named."""
    top = max(live)
    wide = _WIDTH / len(live)
    bars = []
    for step, nbytes in enumerate(live):
        high = _HEIGHT * nbytes / top
        colour = "#c33" if nbytes == top else "#69b"
        place = f"x='{step * wide:.1f}' y='{_HEIGHT - high:.1f}' width='{max(wide - 0.5, 0.5):.1f}'"
        title = f"<title>step {step}: {nbytes:,}</title>"
        bars.append(f"<rect {place} height='{high:.1f}' fill='{colour}'>{title}</rect>")
    label = f"peak {top:,} bytes at step {live.index(top)}"
    return (
        f"<svg viewBox='0 -20 {_WIDTH} {_HEIGHT + 20}' width='{_WIDTH}'>{''.join(bars)}"
        f"<text x='0' y='-6' font-size='12'>{label}</text></svg>"
    )
