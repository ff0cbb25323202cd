"""A sender and a receiver of one way, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.transport import payloads, worker

_ANSWER_S: Final = 600.0
_CONTEXT: Final = multiprocessing.get_context("spawn")


class _Process:
    def __init__(self, way: str, folder: Path, address: str | None) -> None:
        self._way = way
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=worker.run, args=(theirs, way, folder, address), daemon=True
        )
        self._process.start()
        theirs.close()
        self.said = self._answer()

    def ask(self, method: str, *arguments: object) -> Any:
        self._pipe.send((method, arguments))
        return self._answer()

    def _answer(self) -> Any:
        if not self._pipe.poll(_ANSWER_S):
            raise TimeoutError(f"{self._way}: no answer within {_ANSWER_S:g} s")
        is_good, result = self._pipe.recv()
        if not is_good:
            raise RuntimeError(f"{self._way} failed:\n{result}")
        return result

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.join(10)
        self._pipe.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds for one value, of the clock and of either side's CPU."""

    time_s: float
    send_cpu_s: float
    receive_cpu_s: float

    @property
    def cpu_s(self) -> float:
        """Of both sides."""
        return self.send_cpu_s + self.receive_cpu_s


class Pair:
    """Both processes; they end with the `with` block."""

    def __init__(self, way: str, folder: Path) -> None:
        self._receiver = _Process(way, folder, None)
        try:
            self._sender = _Process(way, folder, self._receiver.said)
        except BaseException:
            self._receiver.end()
            raise

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """The processes are gone."""
        self._receiver.kill()  # at once with the other: neither says that its peer is lost
        self._sender.end()
        self._receiver.end()

    def prepare(self, name: str) -> None:
        """The sender has that payload at hand."""
        self._sender.ask("prepare", name)

    def send(self, payload: payloads.Payload) -> Spent:
        """What one of the payload's values took, over its count."""
        before = self._receiver.ask("usage").cpu_s
        time_s, cpu_s = self._sender.ask("send", payload.count, payload.window, payload.is_chained)
        after = self._receiver.ask("usage").cpu_s
        count = payload.count
        return Spent(
            time_s=time_s / count,
            send_cpu_s=cpu_s / count,
            receive_cpu_s=(after - before) / count,
        )

    def peaks(self) -> tuple[int, int]:
        """Bytes by which sending the value once raises sender's and receiver's resident peak."""
        sides = (self._sender, self._receiver)
        for side in sides:
            side.ask("forget_peak")
        before = [side.ask("usage").resident_bytes for side in sides]
        self._sender.ask("send", 1, 1, False)
        after = [side.ask("usage").peak_bytes for side in sides]
        return after[0] - before[0], after[1] - before[1]

    def send_beside(self) -> list[float]:
        """See `link.Sender.send_beside`."""
        found: list[float] = self._sender.ask("send_beside")
        return found
