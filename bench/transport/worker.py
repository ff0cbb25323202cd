"""One side of one way, in a process of its own that does what it is told through a pipe."""

from __future__ import annotations

import importlib
import os
import resource
import time
import traceback
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from bench.transport import payloads


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process: CPU seconds of all its threads, bytes resident now and at the peak."""

    cpu_s: float
    resident_bytes: int
    peak_bytes: int


def usage() -> Usage:
    """Of this process, so far."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    status = Path("/proc/self/status").read_text()
    found = dict(line.split(":", 1) for line in status.splitlines())
    resident, peak = (int(found[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return Usage(spent.ru_utime + spent.ru_stime, resident, peak)


def _forget_peak() -> None:
    """The peak is what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


class _Receiving:
    def __init__(self, way: Any, folder: Path) -> None:
        self._receiver = way.Receiver(folder)
        self.said = self._receiver.address

    usage = staticmethod(usage)
    forget_peak = staticmethod(_forget_peak)


class _Sending:
    def __init__(self, way: Any, folder: Path, address: str) -> None:
        self._sender = way.Sender(folder, address)
        self._value: Any = None
        self.said = "ready"

    usage = staticmethod(usage)
    forget_peak = staticmethod(_forget_peak)

    def prepare(self, name: str) -> None:
        """This is sent from now on."""
        self._value = None
        self._value = payloads.PAYLOADS[name].make()

    def send(self, count: int, window: int, is_chained: bool) -> tuple[float, float]:
        """Seconds until all were in the receiver's hands, and CPU seconds here."""
        cpu, began = time.process_time(), time.perf_counter()
        if is_chained:
            self._sender.send_chained(self._value, count=count)
        else:
            self._sender.send(self._value, count=count, window=window)
        return time.perf_counter() - began, time.process_time() - cpu

    def send_beside(self) -> list[float]:
        """Seconds of each scalar that went while the value was on its way."""
        found: list[float] = self._sender.send_beside(self._value, payloads.SCALAR)
        return found


def run(pipe: connection.Connection, way: str, folder: Path, address: str | None) -> None:
    """Answer what comes through the pipe: (method, arguments) gives (True, result)."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        module = importlib.import_module(f"bench.transport.{way}")
        side: Any = (
            _Receiving(module, folder) if address is None else _Sending(module, folder, address)
        )
        pipe.send((True, side.said))
        while True:
            method, arguments = pipe.recv()
            pipe.send((True, getattr(side, method)(*arguments)))
    except EOFError:
        pass  # the bench has ended
    except Exception:  # noqa: BLE001 - told to the bench, which ends by it
        pipe.send((False, traceback.format_exc()))
    os._exit(0)
