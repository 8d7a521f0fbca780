"""What a traced value cannot do, and the errors that say so.

Input: the type of a traced value, and what was tried.  Output: the error, with the user's line and
the way out; for NumPy's protocols, what the line that called was about to do.
"""

from __future__ import annotations

import dis
import sys
from types import FrameType

from stax.core.aval import Aval
from stax.core.source import is_called_by_scipy, user_source
from stax.errors import ConcretizationError, StaxError, TracerLeakError


def number_error(what: str, construct: str, aval: str, place: str) -> ConcretizationError:
    """The error for a construct that needs a number: a conversion, or a decision of Python's."""
    return ConcretizationError(
        f"{construct} needs the number behind a traced value of type {aval}, "
        f"which is not known while tracing ({what} conversion)",
        operands=(aval,),
        where=place or None,
        hint=_NUMBERS.get(construct, "") + "use stax.numpy.where, stax.lax.cond / while_loop / "
        "fori_loop for control flow on values, or mark the argument static (static_argnums / "
        "static_argnames)",
    )


# What is tried most often where a number is asked for: to print or keep it, or to call `math`.
_OUTSIDE = "to print or keep the number, return the value and convert it outside of the function; "
_NUMBERS = {
    "float()": _OUTSIDE + "for a function of the module math, call NumPy's (np.exp); ",
    "int()": _OUTSIDE,
    "complex()": _OUTSIDE,
    ".item()": _OUTSIDE,
    ".tolist()": _OUTSIDE,
}


def index_error(aval: Aval) -> ConcretizationError:
    """The error for `table[i]` with a plain table: NumPy looks the index up itself."""
    return ConcretizationError(
        f"a plain NumPy array is indexed with a traced value of type {aval}, which is not "
        "known while tracing",
        operands=(f"index: {aval}",),
        where=user_source() or None,
        hint="make the array traced too: stax.numpy.asarray(table)[i] (it may be written once, "
        "at the top of the function), stax.numpy.take(table, i, axis=0), or pass the table as an "
        "argument",
    )


def plain_write_error(aval: Aval) -> ConcretizationError:
    """The error for `array[i] = value` with a plain array: NumPy asks the index for an array."""
    return ConcretizationError(
        f"an array made by plain NumPy is written to with a traced value of type {aval} as "
        "the index or the value",
        operands=(str(aval),),
        where=user_source() or None,
        hint="make the array with stax.numpy.zeros or np.zeros(..., like=x), inside the function; "
        "in a loop of stax.lax carry it (a.at[i].set(v)), or return the values of the steps: scan "
        "and vmap stack them",
    )


def no_version_error(name: str) -> ConcretizationError:
    """The error for a function of another library that has no traced version."""
    return ConcretizationError(
        f"{name} of NumPy, SciPy or another library has no traced version",
        op=name,
        where=user_source() or None,
        hint="use stax.pure_callback to call it on concrete values",
    )


def no_array_error(aval: Aval) -> ConcretizationError:
    """The error for a traced value where only a NumPy array would do."""
    if is_called_by_scipy():
        return ConcretizationError(
            f"a traced value of type {aval} was given to a function of SciPy that takes "
            "plain arrays",
            operands=(str(aval),),
            where=user_source() or None,
            hint="stax.scipy has traced versions of many, under the same names; else stop tracing "
            "with stax.pure_callback, and give it a derivative with stax.custom_vjp",
        )
    table = ""
    if aval.dtype.kind in "iu":
        table = "write table[i] or stax.numpy.take(table, i, axis=0); "
    return ConcretizationError(
        f"a traced value of type {aval} was used where a plain NumPy array is needed: "
        "np.array / np.asarray of it, a write of it into an array made by plain NumPy, or "
        "a NumPy function without a traced version",
        operands=(str(aval),),
        where=user_source() or None,
        hint=f"{table}convert dtypes with x.astype(np.float32), not np.float32(x); make the array "
        "that is written to with stax.numpy.zeros or np.zeros(..., like=x) so that it is traced; "
        "build arrays from traced values with np.stack or stax.numpy.array; stop tracing with "
        "stax.pure_callback",
    )


def leak_error(aval: Aval, op: str) -> TracerLeakError:
    """The error for a tracer that outlived its transformation."""
    return TracerLeakError(
        f"a traced value of type {aval} was used outside the transformation that made it",
        op=op,
        where=user_source() or None,
        hint="it was stored somewhere (a global, a closure, an attribute); return the value from "
        "the transformed function instead",
    )


def is_stored_by_caller() -> bool:
    """True when Python's caller is at `a[i] = value`: NumPy takes the number of a 0-d value then.

    The number would lose the derivative without a word, so the write is refused instead.
    """
    return _instruction(sys._getframe(2)) == "STORE_SUBSCR"


def is_index_of_caller() -> bool:
    """True when Python's caller is at `a[i]`, where NumPy asks an index for an array."""
    return _instruction(sys._getframe(2)) in ("BINARY_SUBSCR", "BINARY_OP")


def _instruction(frame: FrameType) -> str:
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def located(error: StaxError, prim: str, source: str) -> StaxError:
    """`error` with the operation and the user's line appended once."""
    text = str(error)
    if source and source not in text:
        error.args = (f"{text}\n  at {source} (in {prim})", *error.args[1:])
    return error
