"""The product's codec over one bidirectional gRPC stream, in messages of 1 MiB at most."""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import grpc  # noqa: TID253 - loaded by the way that needs it alone

from bench.transport import grpc_ends, payloads
from fed.codec import types, wire
from fed.transport import pool

#: Smaller ones double its cost.
_MESSAGE_BYTES: Final = 1 << 20
_LENGTHS: Final = struct.Struct("<QQ")
_TYPES: Final = types.UserTypes([], None)


def _messages(value: Any) -> Iterator[bytes]:
    encoded = wire.encode(value, types=_TYPES)
    lengths = _LENGTHS.pack(len(encoded.header), encoded.body_bytes)
    part = bytearray(lengths + encoded.header)
    for piece in encoded.body():
        rest = memoryview(piece)
        while rest.nbytes:
            if not part and rest.nbytes >= _MESSAGE_BYTES:
                yield bytes(rest[:_MESSAGE_BYTES])
                rest = rest[_MESSAGE_BYTES:]
                continue
            room = max(0, _MESSAGE_BYTES - len(part))
            part += rest[:room]
            rest = rest[room:]
            if len(part) >= _MESSAGE_BYTES:
                yield bytes(part)
                part.clear()
    if part:
        yield bytes(part)


class _Assembly:
    """Messages put together, in memory that is used again."""

    def __init__(self) -> None:
        self._pool = pool.Pool(keep_bytes=256 << 20, clock=time.monotonic)
        self._body: memoryview | None = None
        self._header = b""
        self._got = 0

    def add(self, message: bytes) -> bool:
        """True once a value was complete, and used."""
        part = memoryview(message)
        if self._body is None:
            header_bytes, body_bytes = _LENGTHS.unpack_from(part)
            start = _LENGTHS.size + header_bytes
            self._header, part = bytes(part[_LENGTHS.size : start]), part[start:]
            self._body, self._got = self._pool.get(body_bytes), 0
        end = self._got + len(part)
        self._body[self._got : end] = part
        self._got = end
        if end < len(self._body):
            return False
        body, self._body = self._body, None
        payloads.use(wire.decode(self._header, body, types=_TYPES))
        return True


class Receiver:
    """See `link.Receiver`."""

    def __init__(self, folder: Path) -> None:
        async def take(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            assembly = _Assembly()
            async for message in messages:
                if assembly.add(message):
                    yield b"k"

        handler = grpc.stream_stream_rpc_method_handler(take)
        self._loop = grpc_ends.Loop()
        self._server, self.address = self._loop.run(grpc_ends.serve(folder, handler))


class Sender:
    """See `link.Sender`; nothing goes beside a large value here."""

    def __init__(self, folder: Path, address: str) -> None:
        self._loop = grpc_ends.Loop()

        async def connect() -> Any:
            self._channel = grpc_ends.channel(folder, address)
            return self._channel.stream_stream("/bench.Grpc/Send")()

        self._call = self._loop.run(connect())

    def send(self, value: Any, *, count: int, window: int) -> None:
        """See `link.Sender`."""
        if window > 1:
            self._loop.run(self._send(value, count, window))
            return
        for _ in range(count):
            self._loop.run(self._send(value, 1, 1))

    async def _send(self, value: Any, count: int, window: int) -> None:
        on_way = 0
        for _ in range(count):
            if on_way == window:
                await self._call.read()
                on_way -= 1
            for message in _messages(value):
                await self._call.write(message)
            on_way += 1
        for _ in range(on_way):
            await self._call.read()

    def send_chained(self, value: Any, *, count: int) -> None:
        """See `link.Sender`."""
        self._loop.run(self._send(value, count, 1))
