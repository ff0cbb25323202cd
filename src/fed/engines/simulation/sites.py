"""Where in the script a call was made."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Final

#: A place in the program: a code object and an instruction in it. Cheap to take, and turned into
#: `file:line` only when somebody reads it.
Place = tuple[CodeType, int]

NOWHERE: Final = "<unknown>"


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module is not None and module != "fed" and not module.startswith("fed."):
            return frame
        frame = frame.f_back
    return None


def place() -> Place | None:
    """The innermost place outside this package in the present call stack."""
    frame = _caller()
    return None if frame is None else (frame.f_code, frame.f_lasti)


def here() -> str:
    """`file:line` of the innermost place outside this package."""
    frame = _caller()
    return NOWHERE if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def text(where: Place | None) -> str:
    """`file:line` of a place taken earlier."""
    if where is None:
        return NOWHERE
    code, instruction = where
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"
