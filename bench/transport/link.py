"""The product's way: an endpoint at each side."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.transport import keys, payloads
from fed import names
from fed.codec import types
from fed.transport import endpoint, requests

_START_S: Final = 60.0
_DELIVERY_S: Final = 300.0
#: For so many calls values are awaited at a time; more than any payload has on the way.
_AHEAD: Final = 2048


def _endpoint(folder: Path, party: str, peer: str, address: str | None) -> endpoint.Endpoint:
    return endpoint.Endpoint(
        names.PartyId(party),
        keys.FEDERATION,
        "bench",
        peers={peer: address},
        listen=None if address else f"{keys.HOST}:0",
        identity=keys.identity_of(folder, party),
        types=types.UserTypes([], None),
    )


class Receiver:
    """Takes the values in order, as calls that wait for one each.

    Attributes:
        address: where the sender dials.
    """

    def __init__(self, folder: Path) -> None:
        self._end = _endpoint(folder, keys.RECEIVER, keys.SENDER, None)
        self._end.listen()
        self.address = str(self._end.address)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._end.start(_START_S)
        for call in range(1, _AHEAD + 1):
            self._expect(call)

    def _expect(self, call: int) -> None:
        self._end.expect([(keys.SENDER, call, 0)], number=call, done=self._take)

    def _take(self, request: requests.Request) -> None:
        payloads.use(request.taken()[0])
        self._expect(request.number + _AHEAD)


class Sender:
    """Sends; see `worker` for what it is asked."""

    def __init__(self, folder: Path, address: str) -> None:
        self._end = _endpoint(folder, keys.SENDER, keys.RECEIVER, address)
        self._end.start(_START_S)
        self._call = 0

    def _post(
        self, value: Any, done: Callable[[requests.Sent], None] | None = None
    ) -> requests.Sent:
        self._call += 1
        return self._end.send(
            value, to=keys.RECEIVER, number=self._call, call=self._call, done=done
        )

    def send(self, value: Any, *, count: int, window: int) -> None:
        """All are in the receiver's hands when it returns."""
        on_way: deque[requests.Sent] = deque()
        for _ in range(count):
            if len(on_way) == window:
                on_way.popleft().result(_DELIVERY_S)
            on_way.append(self._post(value))
        for one in on_way:
            one.result(_DELIVERY_S)

    def send_chained(self, value: Any, *, count: int) -> None:
        """As `send`, one at a time, each begun where the one before is known to be there.

        No thread that waits has to be woken in between.
        """
        ended = threading.Event()
        left = iter(range(count - 1))

        last: list[requests.Sent] = []

        def sent(one: requests.Sent) -> None:
            if one.error is None and next(left, None) is not None:
                self._post(value, sent)
                return
            last.append(one)
            ended.set()

        self._post(value, sent)
        if not ended.wait(_DELIVERY_S):
            raise TimeoutError(f"{count} values were not delivered in {_DELIVERY_S:g} s")
        last[0].result(0)

    def send_beside(self, large: Any, small: Any) -> list[float]:
        """Seconds that each small value took, one at a time, while a large one was on its way."""
        sent = self._post(large)
        found = []
        while not sent.is_done:
            began = time.perf_counter()
            self._post(small).result(_DELIVERY_S)
            found.append(time.perf_counter() - began)
        sent.result(_DELIVERY_S)
        return found
