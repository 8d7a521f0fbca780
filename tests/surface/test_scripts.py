"""Scripts written for JAX run with `import stax as jax` and give JAX's numbers.

Each file in scripts/ fills `results`; expected.json holds what JAX (0.10, 64-bit) computes for the
same text.  An interpreter that has JAX and pytest compares the recorded numbers with its own by
`python tests/surface/test_scripts.py`, of some scripts by `... test_scripts.py cookbook trees`, and
records them anew with `... test_scripts.py --record`.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "scripts"
EXPECTED = FOLDER / "expected.json"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def for_jax(text: str) -> str:
    """The script as it was before `jax` was replaced."""
    text = re.sub(r"^import stax as jax$", "import jax", text, flags=re.MULTILINE)
    return re.sub(r"\b(import|from) stax\b", r"\1 jax", text)


def run(text: str, name: str, leaves_of: Any) -> dict[str, Any]:
    """`results` of a script as nested lists."""
    namespace: dict[str, Any] = {}
    exec(compile(text, f"{name}.py", "exec"), namespace)

    def plain(leaf: Any) -> Any:
        return leaf if isinstance(leaf, str | bool) else np.asarray(leaf).tolist()

    found = {k: leaves_of(plain, v) for k, v in namespace["results"].items()}
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


def differences(want: Any, have: Any, path: str) -> list[str]:
    """Where two nests of lists differ by more than rounding."""
    if isinstance(want, dict) and isinstance(have, dict) and want.keys() == have.keys():
        return [d for k in want for d in differences(want[k], have[k], f"{path}.{k}")]
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        pairs = enumerate(zip(want, have, strict=True))
        return [d for k, (a, b) in pairs for d in differences(a, b, f"{path}[{k}]")]
    if want == have:
        return []
    if isinstance(want, int | float) and isinstance(have, int | float):
        if np.isclose(have, want, 1e-6, 1e-8, equal_nan=True):
            return []
    elif isinstance(want, str) and isinstance(have, str):
        if want[:1] == "(" and np.isclose(complex(have), complex(want), 1e-6):
            return []
    return [f"{path}: {have} is not {want}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_gives_the_numbers_of_jax(name: str) -> None:
    from stax import tree

    expected = json.loads(EXPECTED.read_text())[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about NaNs that scripts make
        have = run((FOLDER / f"{name}.py").read_text(), name, tree.map)
    assert have.keys() == expected.keys()
    assert not differences(expected, have, name)


def compare(names: list[str], record: bool) -> int:
    """Run scripts with the installed JAX; print where it differs, or write expected.json."""
    import jax

    jax.config.update("jax_enable_x64", True)
    expected = json.loads(EXPECTED.read_text())
    count = 0
    for name in names:
        text = for_jax((FOLDER / f"{name}.py").read_text())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run(text, name, jax.tree.map)
        rounded = json.loads(json.dumps(found), parse_float=lambda t: float(f"{float(t):.12g}"))
        differing = [] if record else differences(expected[name], rounded, name)
        count += len(differing)
        print(f"{name}: {len(differing)} differences", *differing, sep="\n  ", flush=True)
        expected[name] = rounded
    if record:
        # One line for each result keeps the differences of two recordings readable.
        scripts = [
            f"{json.dumps(name)}: {{\n"
            + ",\n".join(f" {json.dumps(k)}: {json.dumps(v[k])}" for k in sorted(v))
            + "\n}"
            for name, v in sorted(expected.items())
        ]
        EXPECTED.write_text("{\n" + ",\n".join(scripts) + "\n}\n")
    return count


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")] or NAMES
    sys.exit(1 if compare(chosen, "--record" in sys.argv) else 0)
