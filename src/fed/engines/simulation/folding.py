"""The fold behind `fed.reduce`: fixed blocks, so that the result is the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fed import errors
from fed.codec import seal
from fed.engines.simulation import runner
from fed.model import calls

#: Objects are folded left to right in blocks of this many, and the blocks' results left to right.
#: Fixed, so that floating-point results do not depend on how many workers fold.
BLOCK: Final = 1024

NOTHING: Final = calls.NOTHING


class Fold:
    """A left fold in blocks; after a failure of `op` it goes on taking values and folds none.

    `op` gets snapshots, as any body does: what it returns is sealed before the next step.

    Attributes:
        refused: why a value that `op` returned, or `initial`, can't be copied; None if all could.
    """

    def __init__(
        self,
        op: Callable[[Any, Any], Any],
        initial: Any,
        *,
        isolates: bool,
        run: runner.Runner,
    ) -> None:
        self._op = op
        self._run = run
        self._isolates = isolates
        self._in_block = 0
        self._total: Any = NOTHING
        self._error: BaseException | None = None
        self._block: Any = initial
        self.refused: errors.ValueRefusedError | None = None
        if initial is not NOTHING and isolates:
            try:
                self._block = seal.opened(seal.snapshot(initial, root="initial"))
            except errors.ValueRefusedError as error:
                self.refused = error

    @property
    def is_empty(self) -> bool:
        """True while there is neither an initial value nor any other."""
        return self._block is NOTHING and self._total is NOTHING and self._error is None

    def add(self, value: Any) -> None:
        """Fold in the next value; what `op` raises is kept for `result`."""
        if self._error is not None or self.refused is not None:
            return
        self._block = value if self._block is NOTHING else self._step(self._block, value)
        self._in_block += 1
        if self._in_block == BLOCK:
            self._close()

    def result(self) -> Any:
        """The folded value.

        Raises:
            Exception: what `op` raised, at whichever step.
        """
        if self._block is not NOTHING:
            self._close()
        if self._error is not None:
            raise self._error
        return self._total

    def _close(self) -> None:
        block, self._block, self._in_block = self._block, NOTHING, 0
        if self._error is None and self.refused is None:
            self._total = block if self._total is NOTHING else self._step(self._total, block)

    def _step(self, left: Any, right: Any) -> Any:
        made = self._run(self._op, (left, right))
        del left, right
        if type(made) is runner.Raised:
            if isinstance(made.error, KeyboardInterrupt):
                raise made.error
            self._error = made.error
            return NOTHING
        if not self._isolates:
            return made
        try:
            made = seal.take(made)
            return seal.opened(made)
        except errors.ValueRefusedError as error:
            self.refused = error
            return NOTHING
