"""How a value of the user's is shown in an error, whatever its own `__repr__` does."""

from __future__ import annotations

from typing import Final

#: Characters of a value that an error shows; a frame or a long list would bury what is said.
_MOST: Final = 200


def shown(value: object) -> str:
    """`repr(value)` cut to 200 characters; its type's name where that raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  (a user's __repr__ may raise anything)
        return f"<{type(value).__qualname__}, whose __repr__ raised {type(error).__name__}>"
    return text if len(text) <= _MOST else text[:_MOST] + "..."
