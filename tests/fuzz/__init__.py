"""Bytes from outside against every parser that meets them: `python -m tests.fuzz.run`, `make fuzz`."""
