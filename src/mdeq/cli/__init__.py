"""One module a command: each has a `main` that takes its arguments and returns its status."""
