"""The op-level IR: values, primitives, traces and graphs."""
