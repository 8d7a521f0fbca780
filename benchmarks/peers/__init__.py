"""One adapter per peer; each maps the definitions onto that peer's names."""
