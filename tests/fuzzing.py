"""Where the random programs of a run begin, and when they end.

Input: a check that takes a seed.  `fuzz` runs it on one seed after another.  The first follows from
the files of the package: a commit that passed passes again, and each new one tries programs of its
own.  For the same reason the number of programs is bounded by a rate that a usual machine reaches,
and by time only on a slower one.  STAX_FUZZ_SEED begins elsewhere, STAX_FUZZ_SECONDS takes longer.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("STAX_FUZZ_SECONDS", "60"))
_PACKAGE = Path(__file__).parent.parent / "stax"


def first_seed(package: Path = _PACKAGE) -> int:
    """The seed that this state of the package begins with, below 10**8."""
    if given := os.environ.get("STAX_FUZZ_SEED"):
        return int(given)
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".c"):
            digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
            digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return int.from_bytes(digest.digest()[:8], "little") % 10**8


def fuzz(check: Callable[[int], None], rate: float, seconds: float = SECONDS) -> int:
    """Run `check` on seeds in a row, at most `rate` a second; returns how many there were.

    Raises:
      AssertionError: caused by what `check` raised; names the seed, and how to begin with it.
    """
    first, start = first_seed(), time.monotonic()
    for done in range(max(1, math.ceil(rate * seconds))):
        if done and time.monotonic() - start > seconds:
            return done
        seed = first + done
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(
                f"the program of seed {seed}, {done} after the first: STAX_FUZZ_SEED={seed} "
                f"begins with it.\n{error}"
            ) from error
    return done + 1


@contextlib.contextmanager
def about(*programs: Any) -> Iterator[None]:
    """What fails inside fails as AssertionError, which shows the programs."""
    try:
        yield
    except Exception as error:
        raise AssertionError("\n".join([str(error), *map(repr, programs)])) from error
