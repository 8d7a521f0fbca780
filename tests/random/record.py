"""Write the numbers that JAX draws to `numbers.npz`: run with a Python that has JAX installed.

JAX_ENABLE_X64=1 python -m tests.random.record
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from tests.random.draws import CLOSE, DOUBLE, EXACT, SINGLE, digest


def main() -> None:
    random = import_module("jax.random")
    out = {n: np.asarray(f(random, random.PRNGKey)) for n, f in {**EXACT, **CLOSE}.items()}
    out |= {f"{n}, many": digest(f)(random, random.PRNGKey) for n, f in (SINGLE | DOUBLE).items()}
    np.savez_compressed(Path(__file__).with_name("numbers.npz"), **out)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
