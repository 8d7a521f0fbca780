"""Back ends: each turns scheduled loop IR into something that runs."""
