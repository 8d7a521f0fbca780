"""The op-level IR: values, primitives, traces and graphs."""

from typing import Any

from stax.absent import missing as _missing
from stax.core import text as text  # registers the printer of graphs
from stax.core.aval import Aval
from stax.core.staging import eval_jaxpr as eval_jaxpr
from stax.core.trace import Tracer as Tracer

ShapedArray = Aval


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
