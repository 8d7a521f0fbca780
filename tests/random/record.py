"""Write the numbers that JAX draws to `numbers.npz`: run with a Python that has JAX installed.

JAX_ENABLE_X64=1 python -m tests.random.record [all]

What is recorded already is kept, unless all are asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.random.draws import CLOSE, DOUBLE, EXACT, HALVES, SINGLE, Draw, digest


def main(everything: bool) -> None:
    random = import_module("jax.random")
    path = Path(__file__).with_name("numbers.npz")
    known: Any = {} if everything else np.load(path)
    draws: dict[str, Draw] = EXACT | CLOSE
    draws |= {f"{name}, many": digest(f) for name, f in (SINGLE | DOUBLE).items()}
    draws |= {f"{name}, some": digest(f, 2) for name, f in HALVES.items()}
    out = {
        name: known[name] if name in known else np.asarray(draw(random, random.PRNGKey))
        for name, draw in draws.items()
    }
    np.savez_compressed(path, **out)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1:] == ["all"])
