"""The op-level IR: values, primitives, traces and graphs."""

from stax.core import text as text  # registers the printer of graphs
from stax.core.trace import Tracer as Tracer
