"""A clock that tests move by hand."""

from __future__ import annotations


class FakeClock:
    """Seconds that pass only when told; call it for the time.

    Args:
        now_s: where it starts. Not 0, so that code that takes 0 for "never" is found out.
    """

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """The time now, in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> float:
        """Let `seconds` >= 0 pass; gives the new time."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back ({seconds:g} s)")
        self.now_s += seconds
        return self.now_s
