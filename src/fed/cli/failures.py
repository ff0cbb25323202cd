"""Tracebacks of the script alone: frames of the command and of the package are left out."""

from __future__ import annotations

import sys
import traceback
import types

from fed import errors


def show(error: BaseException) -> None:
    """Print how the script ended, as Python would, on stderr.

    A `SystemExit` prints its text if it has one, Ctrl-C one line that says where the script was.
    """
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)  # noqa: T201  (as Python does)
        return
    if isinstance(error, KeyboardInterrupt):
        print(f"interrupted{_place(error)}", file=sys.stderr)  # noqa: T201
        return
    trim(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # noqa: BLE001  (a hook of the script's that fails hides nothing)
        sys.__excepthook__(type(error), error, error.__traceback__)


def trim(error: BaseException) -> None:
    """Leave only the user's frames in the tracebacks of an error and all that is chained to it.

    An error that is not the package's and was raised in it keeps the package's frames: they show
    where, and it is likely a fault of the package.
    """
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _trimmed(one)
        if isinstance(one, BaseExceptionGroup):
            left.extend(one.exceptions)
        left.extend(other for other in (one.__cause__, one.__context__) if other is not None)


def _trimmed(error: BaseException) -> types.TracebackType | None:
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append(step)
        step = step.tb_next
    while frames and _is_of(frames[0], "fed.cli", "fed.session", "contextlib"):
        frames.pop(0)
    if not isinstance(error, errors.FedError) and frames and _is_of(frames[-1], "fed"):
        kept = frames
    else:
        kept = [frame for frame in frames if not _is_of(frame, "fed")]
    result: types.TracebackType | None = None
    for frame in reversed(kept):
        result = types.TracebackType(result, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return result


def _is_of(step: types.TracebackType, *parts: str) -> bool:
    """True if the frame's module is one of `parts` or inside one."""
    if step.tb_frame.f_code.co_filename.startswith("<fed "):
        return True  # methods compiled for one class
    name = str(step.tb_frame.f_globals.get("__name__", ""))
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def _place(error: BaseException) -> str:
    """` at FILE:LINE, in NAME`: the innermost frame of the user's."""
    trimmed = _trimmed(error)
    if trimmed is None:
        return ""
    last = traceback.extract_tb(trimmed)[-1]
    return f" at {last.filename}:{last.lineno}, in {last.name}"
