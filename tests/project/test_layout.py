"""Rules of the source tree: size, subject, layering, imports at the top, nothing left open."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "stax"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = sorted(
    path
    for folder in ("stax", "tests", "examples", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
)
MOST_LINES = 620


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_stay_small() -> None:
    long = {
        relative(path): lines
        for path in PYTHON_FILES
        if (lines := path.read_text().count("\n")) > MOST_LINES
    }
    assert not long, f"split by subject: {long}"


def test_every_module_opens_with_a_docstring() -> None:
    bare = [
        relative(path)
        for path in SOURCES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not bare


def test_no_module_is_a_drawer_for_everything() -> None:
    vague = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}
    assert not [relative(path) for path in SOURCES if path.stem in vague]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def first_party_imports(tree: ast.AST, module: str) -> Iterator[tuple[str, int, bool]]:
    """Yield `(imported module, line, inside a function)` for every import at run time."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if is_type_checking(node):
            continue
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            if base.split(".")[0] == "stax":
                for name in node.names:
                    full = f"{base}.{name.name}"
                    is_module = (ROOT / full.replace(".", "/")).with_suffix(".py").exists() or (
                        ROOT / full.replace(".", "/")
                    ).is_dir()
                    yield (full if is_module else base), node.lineno, inside
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "stax":
                    yield name.name, node.lineno, inside
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack.extend((child, inside) for child in ast.iter_child_nodes(node))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts) if parts[-1] != "__init__" else ".".join(parts[:-1]) + ".__init__"


IMPORTS = [
    (module_name(path).removesuffix(".__init__"), relative(path), *found)
    for path in SOURCES
    for found in first_party_imports(ast.parse(path.read_text()), module_name(path))
]


def test_no_first_party_import_inside_a_function() -> None:
    inside = [f"{path}:{line} imports {target}" for _, path, target, line, deep in IMPORTS if deep]
    assert not inside


SURFACE = ("stax.numpy", "stax.lax", "stax.nn", "stax.random", "stax.scipy", "stax.tree")


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def test_surface_and_transformations_do_not_reach_below_primitives() -> None:
    wrong = [
        f"{path}:{line} imports {target}"
        for module, path, target, line, _ in IMPORTS
        if within(module, (*SURFACE, "stax.transforms"))
        and within(target, ("stax.loops", "stax.schedule", "stax.backends"))
    ]
    assert not wrong


def test_backends_do_not_see_the_op_level_graph() -> None:
    wrong = [
        f"{path}:{line} imports {target}"
        for module, path, target, line, _ in IMPORTS
        if within(module, ("stax.backends", "stax.schedule"))
        and within(target, ("stax.core.graph", "stax.transforms"))
    ]
    assert not wrong


def test_only_jit_and_the_top_know_the_driver() -> None:
    allowed = (
        "stax.transforms.jit",
        "stax.transforms.jit_call",
        "stax.explain",
        "stax.export",
        "stax.compile",
    )
    wrong = [
        f"{path}:{line}"
        for module, path, target, line, _ in IMPORTS
        if within(target, ("stax.compile",)) and module != "stax" and not within(module, allowed)
    ]
    assert not wrong
    below = [
        f"{path}:{line}"
        for module, path, target, line, _ in IMPORTS
        if within(module, ("stax.compile",)) and within(target, ("stax.transforms.jit",))
    ]
    assert not below


LEFT_OPEN = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError|pytest\.mark\.(skip\b|xfail)")


def test_nothing_is_left_open() -> None:
    here = Path(__file__)
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in PYTHON_FILES
        if path != here
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LEFT_OPEN.search(line)
    ]
    assert not found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def beside_python(name: str) -> str:
    """Return a console script of this interpreter's environment."""
    found = Path(sys.executable).parent / name
    path = str(found) if found.exists() else shutil.which(name)
    assert path, f"{name} is not installed; install the extra: pip install -e '.[test]'"
    return path


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")])
def test_ruff_is_clean(arguments: tuple[str, ...]) -> None:
    folders = [folder for folder in ("stax", "tests", "examples", "benchmarks") if (ROOT / folder)]
    result = run(beside_python("ruff"), *arguments, *folders)
    assert result.returncode == 0, result.stdout + result.stderr


def test_imports_point_one_way() -> None:
    result = run(beside_python("lint-imports"), "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr
