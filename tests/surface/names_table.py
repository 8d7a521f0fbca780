"""What every public function does under each transformation, found by trying: docs/names.md.

Input: examples.txt, a call for each function of the array namespaces.  Output: a table of statuses.
`python -m tests.surface.names_table` writes docs/names.md anew; a test holds it up to date.

yes: works.  fallback: works, by NumPy from inside the compiled program.  refused: raises an error
that says why.  none: there is nothing to differentiate (no floating argument or result).
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stax
import stax.lax as lax
import stax.numpy as snp
import stax.scipy.linalg
from stax.errors import StaxError

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER.parents[1] / "docs" / "names.md"
SPACES = (
    "numpy numpy.linalg numpy.fft lax lax.linalg nn scipy.special scipy.linalg scipy.signal "
    "scipy.fft scipy.ndimage image".split()
)
# Functions of files, printing, types and named axes, whose answer is not an array.
WITHOUT_EXAMPLE = frozenset(
    "lax.all_gather lax.all_to_all lax.axis_index lax.axis_size "
    "lax.conv_dimension_numbers lax.dtype lax.padtype_to_pads lax.pmax lax.pmean lax.pmin "
    "lax.ppermute lax.psum lax.psum_scatter lax.rng_uniform numpy.array2string numpy.array_repr "
    "numpy.array_str numpy.at numpy.base_repr numpy.binary_repr numpy.common_type "
    "numpy.copyto numpy.einsum_path numpy.finfo numpy.iinfo numpy.format_float_positional "
    "numpy.format_float_scientific numpy.fromfile numpy.frompyfunc numpy.fromstring "
    "numpy.genfromtxt numpy.get_printoptions numpy.geterr numpy.load numpy.loadtxt "
    "numpy.may_share_memory numpy.min_scalar_type numpy.printoptions numpy.promote_types "
    "numpy.putmask numpy.result_type numpy.save numpy.savetxt numpy.savez "
    "numpy.savez_compressed numpy.set_printoptions numpy.seterr numpy.shares_memory "
    "numpy.typename scipy.linalg.hadamard scipy.special.lpmn scipy.special.lpmn_values".split()
)

FLOATS: dict[str, Any] = {
    "x": np.array([[0.2, 0.3, 0.4], [0.5, 0.6, 0.7]]),
    "v": np.array([0.3, 0.1, 0.2]),
    "A": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]),
    "s": np.float64(0.4),
    "z": np.array([1 + 2j, 3 - 1j, 0.5j]),
}
OTHERS: dict[str, Any] = {
    "i": np.array([2, 0, 1]),
    "b": np.array([True, False, True]),
    "u": np.array([3, 5], np.uint8),
    "k": np.array([1, 0]),
}
REFUSALS = (StaxError, TypeError, ValueError, IndexError)


def examples() -> dict[str, str]:
    """The arguments of a call for each function, as text."""
    lines = (FOLDER / "examples.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions of the array namespaces."""
    for space in SPACES:
        module = importlib.import_module(f"stax.{space}")
        for name in sorted(getattr(module, "__all__", vars(module))):
            value = getattr(module, name)
            own = not isinstance(value, types.ModuleType) and not name.startswith("_")
            if own and callable(value) and (not inspect.isclass(value) or name == "vectorize"):
                home = str(value.__module__)
                flat = space in ("numpy", "lax", "nn") or hasattr(module, "__all__")
                if flat or not home.startswith("stax") or home.startswith(f"stax.{space}"):
                    yield f"{space}.{name}", value


class Trial:
    """One function with its example."""

    def __init__(self, function: Callable[..., Any], text: str) -> None:
        self.code = compile(f"F({text})", "example", "eval")
        used = set(re.findall(r"\b[a-zA-Z]\b", text))
        self.function = function
        self.floats = {n: v for n, v in FLOATS.items() if n in used}
        self.others = {n: v for n, v in OTHERS.items() if n in used}

    def run(self, values: dict[str, Any]) -> Any:
        scope = {"np": np, "snp": snp, "lax": lax, "stax": stax, "F": self.function}
        return eval(self.code, {**scope, **FLOATS, **OTHERS, **values})

    def value(self) -> str:
        """Whether it runs on arrays."""
        self.run({n: np.array(v) for n, v in (self.floats | self.others).items()})
        return "yes"

    def jit(self) -> str:
        """Whether it compiles, arrays of all dtypes traced, or those of floats alone."""
        for traced in (self.floats | self.others, self.floats):
            try:
                lowered = stax.jit(lambda values: self.run(values)).lower(traced)
            except REFUSALS:
                continue
            return "fallback" if lowered.fallbacks else "yes"
        return "refused"

    def grad(self) -> str:
        """Whether reverse mode gives the cotangents of all floating arguments."""
        if not self.floats:
            return "none"
        try:
            outs, pull = stax.vjp(lambda values: _inexact(self.run(values)), self.floats)
            if not outs:
                return "none"
            pull(stax.tree.map(np.ones_like, outs))
        except REFUSALS:
            return "refused"
        return "yes"

    def vmap(self) -> str:
        """Whether a batch of two, in all arrays or those of floats, goes through."""
        for mapped in (self.floats | self.others, self.floats):
            if not mapped:
                continue
            batch = {n: np.stack([v, v]) for n, v in mapped.items()}
            try:
                stax.vmap(lambda values: self.run(values))(batch)
            except REFUSALS:
                continue
            return "yes"
        return "refused" if self.floats or self.others else "none"


def _inexact(tree: Any) -> list[Any]:
    return [
        leaf
        for leaf in stax.tree.leaves(tree)
        if np.dtype(getattr(leaf, "dtype", int)).kind in "fc"
    ]


def statuses() -> dict[str, tuple[str, str, str, str]]:
    """(value, jit, grad, vmap) of every function with an example."""
    texts = examples()
    found = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, function in public_functions():
            if name in texts:
                trial = Trial(function, texts[name])
                found[name] = (trial.value(), trial.jit(), trial.grad(), trial.vmap())
    return found


def document() -> str:
    """The text of docs/names.md."""
    lines = [
        "# Names",
        "",
        "Every function of the array namespaces and what it does under each transformation, found",
        "by trying a call of each (`tests/surface/examples.txt`). This page is written by",
        "`python -m tests.surface.names_table`.",
        "",
        "- **yes**: works. **fallback**: works, by NumPy from inside the compiled program.",
        "- **refused**: raises an error that says why and names the way out: mostly functions",
        "  whose result's shape depends on values, or that have no derivative.",
        "- **none**: no floating argument or result to differentiate, no array to batch.",
        "",
        "Without a row: "
        + ", ".join(f"`{n}`" for n in sorted(WITHOUT_EXAMPLE))
        + " (files, printing, types, in-place copies, and collectives, which need a named axis).",
    ]
    space = ""
    for name, row in statuses().items():
        if name.rpartition(".")[0] != space:
            space = name.rpartition(".")[0]
            lines += ["", f"## stax.{space}", "", "| name | value | jit | grad | vmap |"]
            lines.append("|---|---|---|---|---|")
        lines.append(f"| `{name.rpartition('.')[2]}` | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
