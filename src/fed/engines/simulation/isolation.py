"""The port of isolation levels that do more than seal values: they wrap every body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fed.model import calls


class Guard(Protocol):
    """Wraps the bodies of one session."""

    def local(self, party: str, target: Callable[..., Any]) -> Callable[..., Any]:
        """The function or class that stands for `target` at a party."""

    def invoke(
        self,
        call: calls.Call,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a body and return what it returns (a coroutine for `async def`).

        Raises:
            BaseException: what the body raises.
            IsolationError: if the body changed what others can see.
        """

    def step(self, call: calls.Call, resume: Callable[[Any], Any], argument: Any) -> Any:
        """Run one step of the coroutine that `invoke` returned for `call`.

        Args:
            call: the call.
            resume: the coroutine's `send` or `throw`.
            argument: what it is given.

        Raises:
            StopIteration: with what the body returns.
            BaseException: what the body raises.
            IsolationError: if the step changed what others can see.
        """
