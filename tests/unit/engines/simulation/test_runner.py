"""Bodies in a frame of their own: what comes back, and what interrupts leave."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from fed.engines.simulation import runner


def test_values_and_errors_come_back() -> None:
    run = runner.Runner()
    assert run(divmod, (7, 2)) == (3, 1)
    assert run(dict, (), {"a": 1}) == {"a": 1}
    raised = run(divmod, (7, 0))
    assert isinstance(raised, runner.Raised)
    assert isinstance(raised.error, ZeroDivisionError)
    assert isinstance(run(sys.exit, (3,)).error, SystemExit)


def interrupted(run: runner.Runner, at: int, body: Any) -> bool:
    """Call `body` with an interrupt before instruction `at`; False if it ended before."""
    seen = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != runner.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                raise KeyboardInterrupt
        return trace

    # The generator's frame is there already, and gets its trace function by hand.
    frame = run._frame.gi_frame
    frame.f_trace, frame.f_trace_opcodes = trace, True

    def call() -> Iterator[Any]:
        # In a generator, which has a state of its own of the exceptions that are being handled:
        # other than signals, tracing can raise between the instructions that take one off it.
        yield run(body, (at,))

    sys.settrace(trace)
    try:
        made = next(call())
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    if isinstance(made, runner.Raised):
        assert isinstance(made.error, KeyboardInterrupt | ValueError)
    else:
        assert made == at
    return seen >= at


def fails(_at: int) -> None:
    raise ValueError("x")


@pytest.mark.parametrize("body", [lambda at: at, fails], ids=["returns", "raises"])
def test_an_interrupt_at_any_instruction_leaves_it_usable(body: Any) -> None:
    run = runner.Runner()
    at = 1
    before = sys.gettrace()
    try:
        while interrupted(run, at, body):
            assert run(divmod, (at, 1)) == (at, 0)
            assert run._made == [], "nothing is kept"
            assert sys.exception() is None
            at += 1
    finally:
        sys.settrace(before)
    assert at > 30, "instructions of the call and of the frame"


def test_a_frame_that_was_ended_is_made_anew() -> None:
    run = runner.Runner()
    run._frame.close()
    assert run(divmod, (7, 2)) == (3, 1)
    assert run(divmod, (8, 2)) == (4, 0)


def test_the_frame_of_a_running_body_is_kept() -> None:
    run = runner.Runner()

    def inside() -> str:
        with pytest.raises(ValueError, match="already executing"):
            run(divmod, (7, 2))
        return "outer"

    assert run(inside) == "outer"
