"""RayFed's way: cloudpickle in one bytes field of a unary call, over grpc.aio.

As its `GrpcService/SendData` does it, with the value unpickled before the answer. What Ray costs
it at both sides (an actor call each, and the object store) does not count.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import cloudpickle
import grpc  # noqa: TID253 - loaded by the way that needs it alone
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bench.transport import grpc_ends, payloads


def _messages() -> tuple[Any, Any]:
    """The classes of request and answer."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="send.proto", package="bench", syntax="proto3")
    shapes = {
        "Request": [
            ("data", field.TYPE_BYTES),
            ("upstream_seq_id", field.TYPE_STRING),
            ("downstream_seq_id", field.TYPE_STRING),
            ("job_name", field.TYPE_STRING),
        ],
        "Answer": [("code", field.TYPE_INT32), ("result", field.TYPE_STRING)],
    }
    for title, fields in shapes.items():
        message = file.message_type.add(name=title)
        for number, (name, kind) in enumerate(fields, 1):
            message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, answer = (pool.FindMessageTypeByName(f"bench.{title}") for title in shapes)
    return message_factory.GetMessageClass(request), message_factory.GetMessageClass(answer)


class Receiver:
    """See `link.Receiver`."""

    def __init__(self, folder: Path) -> None:
        request, answer = _messages()

        async def take(message: Any, _: Any) -> Any:
            payloads.use(cloudpickle.loads(message.data))
            return answer(code=200, result="OK")

        handler = grpc.unary_unary_rpc_method_handler(
            take, request_deserializer=request.FromString,
            response_serializer=answer.SerializeToString,
        )  # fmt: skip
        self._loop = grpc_ends.Loop()
        self._server, self.address = self._loop.run(grpc_ends.serve(folder, handler))


class Sender:
    """See `link.Sender`."""

    def __init__(self, folder: Path, address: str) -> None:
        self._request, answer = _messages()
        self._loop = grpc_ends.Loop()

        async def connect() -> Any:
            self._channel = grpc_ends.channel(folder, address)
            return self._channel.unary_unary(
                "/bench.Grpc/Send",
                request_serializer=self._request.SerializeToString,
                response_deserializer=answer.FromString,
            )

        self._call = self._loop.run(connect())

    async def _post(self, value: Any) -> None:
        message = self._request(
            data=cloudpickle.dumps(value), upstream_seq_id="1#0", downstream_seq_id="2",
            job_name="bench",
        )  # fmt: skip
        await self._call(message)

    def send(self, value: Any, *, count: int, window: int) -> None:
        """See `link.Sender`."""
        if window > 1:
            self._loop.run(self._send(value, count, window))
            return
        for _ in range(count):
            self._loop.run(self._post(value))

    async def _send(self, value: Any, count: int, window: int) -> None:
        left = iter(range(count))

        async def one_after_another() -> None:
            for _ in left:
                await self._post(value)

        await asyncio.gather(*[one_after_another() for _ in range(window)])

    def send_chained(self, value: Any, *, count: int) -> None:
        """See `link.Sender`."""
        self._loop.run(self._send(value, count, 1))

    def send_beside(self, large: Any, small: Any) -> list[float]:
        """See `link.Sender`."""

        async def both() -> list[float]:
            sent = asyncio.create_task(self._post(large))
            found = []
            while not sent.done():
                began = time.perf_counter()
                await self._post(small)
                found.append(time.perf_counter() - began)
            await sent
            return found

        return self._loop.run(both())
