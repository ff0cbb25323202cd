"""The fold behind `fed.reduce`: fixed blocks, so that the result is the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fed.codec import seal
from fed.model import calls

#: Objects are folded left to right in blocks of this many, and the blocks' results left to right.
#: Fixed, so that floating-point results do not depend on how many workers fold.
BLOCK: Final = 1024


class Fold:
    """A left fold in blocks; after a failure of `op` it goes on taking values and folds none.

    `op` gets snapshots, as any body does: what it returns is sealed before the next step.
    """

    def __init__(self, op: Callable[[Any, Any], Any], initial: Any, *, isolate: bool) -> None:
        self._op = op
        self._isolate = isolate
        self._block: Any = calls.NOTHING
        self._in_block = 0
        self._total: Any = calls.NOTHING
        self._error: BaseException | None = None
        if initial is not calls.NOTHING:
            self._block = seal.opened(seal.snapshot(initial)) if isolate else initial

    def add(self, value: Any) -> None:
        """Fold in the next value."""
        if self._error is not None:
            return
        if self._block is calls.NOTHING:
            self._block = value
        else:
            block, self._block = self._block, calls.NOTHING
            self._block = self._step(block, value)
        self._in_block += 1
        if self._in_block == BLOCK:
            self._close()

    def result(self) -> Any:
        """The folded value, NOTHING if there was none.

        Raises:
            BaseException: what `op` raised, at whichever step.
        """
        if self._error is None and self._block is not calls.NOTHING:
            self._close()
        if self._error is not None:
            raise self._error
        return self._total

    def _close(self) -> None:
        block, self._block, self._in_block = self._block, calls.NOTHING, 0
        if self._error is None:
            first = self._total is calls.NOTHING
            self._total = block if first else self._step(self._total, block)

    def _step(self, left: Any, right: Any) -> Any:
        try:
            made = self._op(left, right)
        except Exception as error:  # noqa: BLE001  (it is the outcome of the reduce)
            self._error = error
            return calls.NOTHING
        if self._isolate:
            made = seal.take(made)
            made = seal.opened(made)
        return made
