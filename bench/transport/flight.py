"""The product's codec over Arrow Flight: a DoPut with one batch per value."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight

from bench.transport import keys, payloads
from fed.codec import types, wire

_TYPES: Final = types.UserTypes([], None)
_SCHEMA: Final = pa.schema([("body", pa.uint8())])


class _Server(pyarrow.flight.FlightServerBase):  # type: ignore[misc]
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for batch in reader:
            buffer = batch.data.column(0).buffers()[1]
            body = memoryview(buffer)[: batch.data.num_rows] if batch.data.num_rows else b""
            payloads.use(wire.decode(batch.app_metadata.to_pybytes(), body, types=_TYPES))
            del batch, buffer, body
            writer.write(pa.py_buffer(b"k"))


class Receiver:
    """See `link.Receiver`."""

    def __init__(self, folder: Path) -> None:
        authority, key, certificate = keys.read(folder, keys.RECEIVER)
        self._server = _Server(
            f"grpc+tls://{keys.HOST}:0",
            tls_certificates=[(certificate, key)],
            verify_client=True,
            root_certificates=authority,
        )
        self.address = f"{keys.HOST}:{self._server.port}"
        threading.Thread(target=self._server.serve, daemon=True).start()


class Sender:
    """See `link.Sender`; nothing goes beside a large value here."""

    def __init__(self, folder: Path, address: str) -> None:
        authority, key, certificate = keys.read(folder, keys.SENDER)
        self._client = pyarrow.flight.FlightClient(
            f"grpc+tls://{address}",
            tls_root_certs=authority,
            cert_chain=certificate,
            private_key=key,
        )
        command = pyarrow.flight.FlightDescriptor.for_command(b"send")
        self._writer, self._reader = self._client.do_put(command, _SCHEMA)

    def _post(self, value: Any) -> None:
        encoded = wire.encode(value, types=_TYPES)
        body = pa.allocate_buffer(encoded.body_bytes)
        view = memoryview(body).cast("B")
        at = 0
        for piece in encoded.body():
            flat = memoryview(piece).cast("B")
            view[at : at + flat.nbytes] = flat
            at += flat.nbytes
        column = pa.Array.from_buffers(pa.uint8(), len(view), [None, body])
        self._writer.write_with_metadata(pa.record_batch([column], schema=_SCHEMA), encoded.header)

    def send(self, value: Any, *, count: int, window: int) -> None:
        """See `link.Sender`."""
        on_way = 0
        for _ in range(count):
            if on_way == window:
                self._reader.read()
                on_way -= 1
            self._post(value)
            on_way += 1
        for _ in range(on_way):
            self._reader.read()

    def send_chained(self, value: Any, *, count: int) -> None:
        """See `link.Sender`; its calls block, there are no threads to hand over between."""
        self.send(value, count=count, window=1)
