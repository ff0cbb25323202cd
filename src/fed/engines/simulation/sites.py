"""Where in the script a call was made."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Final, NamedTuple


class Place(NamedTuple):
    """A place in the program: cheap to take, and turned into `file:line` only if somebody reads it.

    It is compared by the identity of its code: a code object's own hash looks at all that is in it.

    Attributes:
        code_id: `id` of the code object, which whoever keeps places has to keep alive.
        instruction: offset in its byte code.
    """

    code_id: int
    instruction: int


NOWHERE: Final = "<unknown>"


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module is not None and module != "fed" and not module.startswith("fed."):
            return frame
        frame = frame.f_back
    return None


def place(codes: dict[int, CodeType]) -> Place:
    """The innermost place outside this package in the present call stack.

    Args:
        codes: takes in the place's code object, by its id.
    """
    frame = _caller()
    if frame is None:
        return Place(0, 0)
    code = frame.f_code
    code_id = id(code)
    if code_id not in codes:
        codes[code_id] = code
    return Place(code_id, frame.f_lasti)


def here() -> str:
    """`file:line` of the innermost place outside this package."""
    frame = _caller()
    return NOWHERE if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def text(where: Place, codes: dict[int, CodeType]) -> str:
    """`file:line` of a place taken earlier."""
    code = codes.get(where.code_id)
    if code is None:
        return NOWHERE
    for start, end, line in code.co_lines():
        if start <= where.instruction < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"
