"""The rows of the primitives, one module per subject; importing a module registers its rows."""
