"""Function transformations: each installs a trace that interprets primitives its own way."""
