"""Programs between graphs and the backends that run them: kept on disk, and interpreted."""
