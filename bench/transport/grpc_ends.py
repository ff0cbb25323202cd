"""What both ways over gRPC share: an event loop in a thread, credentials, options."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc  # noqa: TID253 - loaded by the way that needs it alone

from bench.transport import keys

T = TypeVar("T")

#: RayFed's retries, and its limit of 500 MB lifted.
OPTIONS: Final = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 1),
    ("grpc.so_reuseport", 0),
    (
        "grpc.service_config",
        json.dumps(
            {
                "methodConfig": [
                    {
                        "name": [{"service": "bench.Grpc"}],
                        "retryPolicy": {
                            "maxAttempts": 5,
                            "initialBackoff": "5s",
                            "maxBackoff": "30s",
                            "backoffMultiplier": 2,
                            "retryableStatusCodes": ["UNAVAILABLE"],
                        },
                    }
                ]
            }
        ),
    ),
]


class Loop:
    """An event loop in a thread of its own, as an asynchronous actor has it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 600.0) -> T:
        """What it gives, run there from begin to end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)


async def serve(folder: Path, handler: grpc.RpcMethodHandler) -> tuple[Any, str]:
    """A server with one method, which has to be kept, and its address."""
    authority, key, certificate = keys.read(folder, keys.RECEIVER)
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Grpc", {"Send": handler}),)
    )
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=authority, require_client_auth=True
    )
    port = server.add_secure_port(f"{keys.HOST}:0", credentials)
    await server.start()
    return server, f"{keys.HOST}:{port}"


def channel(folder: Path, address: str) -> grpc.aio.Channel:
    """A channel to it; made inside the loop."""
    return grpc.aio.secure_channel(
        address, grpc.ssl_channel_credentials(*keys.read(folder, keys.SENDER)), OPTIONS
    )
