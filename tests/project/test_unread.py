"""No option of a public function is passed over: each is read, or changes no result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "stax"
FOLDERS = ("numpy", "lax", "nn", "scipy")
FILES = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*.py"))]
FILES += [ROOT / "ops.py", ROOT / "image.py"]

# How much is checked, kept, copied or known beforehand; where a result lies; on which algorithm.
HARMLESS = frozenset(
    "casting check_finite indices_are_sorted is_stable kind order out_sharding overwrite_data "
    "overwrite_input precision stable subok tol unique_indices aggregate_to_topk "
    "recall_target reduction_input_size_override bucket_size n_iter n_max sort_eigenvalues "
    "assume_unique assume_unique_indices sorted strip_zeros copy type stream key linear sharding "
    "allow_negative_indices symmetrize_output".split()
)
READ_ELSEWHERE = {
    "zeros ones empty arange eye ascontiguousarray": {"device", "like"},  # by their decorator
    "searchsorted": {"method"},  # JAX's algorithms; there is one here
    "frompyfunc": {"nin", "nout", "identity"},  # it only raises
}


def unread(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        args = node.args
        given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        names = {a.arg for a in given if a is not None}
        read = {n.id for n in ast.walk(ast.Module(node.body, [])) if isinstance(n, ast.Name)}
        elsewhere = [v for k, v in READ_ELSEWHERE.items() if node.name in k.split()]
        for name in sorted(names - read - HARMLESS.union(*elsewhere)):
            if not name.startswith("_"):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}({name})"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_option_is_read(path: Path) -> None:
    assert not list(unread(path))
