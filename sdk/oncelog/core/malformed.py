"""The exceptions that may come when values are taken out of JSON from another program.

`json` itself has no bound on depth, and takes numbers that no integer is: `[[[[...` is a `RecursionError`, `int(1e400)` an
`OverflowError`, and a list where a mapping was expected an `AttributeError`.
"""

from __future__ import annotations

from typing import Any, Final

JsonObject = dict[str, Any]
"""A JSON object as `json` returns it: its values have no types until the code that takes them out has checked them."""

MALFORMED: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
"""To be caught around the whole of it: parsing, and building values from what was parsed."""
