"""The codec by itself: 100 MB of arrays to bytes and back in one process."""

from __future__ import annotations

import gc
import statistics
import time
import weakref
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.transport import payloads
from fed.codec import types, wire

_TRIES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Medians, and what holds.

    Attributes:
        encode_s: CPU seconds of encoding.
        decode_s: CPU seconds of decoding.
        is_zero_copy: buffers to be sent lie in the arrays, arrays decoded lie in the body.
        is_freed: the body dies with the value, without the garbage collector.
    """

    encode_s: float
    decode_s: float
    is_zero_copy: bool
    is_freed: bool


def measure() -> Found:
    """Encode and decode a dict of 50 float32 arrays, 100 MB."""
    value = payloads.PAYLOADS["arrays-100"].make()
    user = types.UserTypes([], None)
    encoded = wire.encode(value, types=user)
    # What the network does between the two; not part of the codec.
    body = np.frombuffer(b"".join(encoded.body()), np.uint8).copy()
    encoding, decoding = [], []
    for _ in range(_TRIES):
        began = time.process_time()
        encoded = wire.encode(value, types=user)
        between = time.process_time()
        made: Any = wire.decode(encoded.header, memoryview(body.data), types=user)
        decoding.append(time.process_time() - between)
        encoding.append(between - began)
    same = zip(value.values(), encoded.buffers, made.values(), strict=True)
    is_zero_copy = all(
        np.shares_memory(array, np.frombuffer(buffer, np.uint8)) and np.shares_memory(body, back)
        for array, buffer, back in same
    )
    if not all(np.array_equal(array, made[name]) for name, array in value.items()):
        raise RuntimeError("the codec gave other arrays")
    gc.collect()
    gc.disable()
    seen = weakref.ref(body)
    del body, made, same
    is_freed = seen() is None
    gc.enable()
    return Found(
        encode_s=statistics.median(encoding),
        decode_s=statistics.median(decoding),
        is_zero_copy=is_zero_copy,
        is_freed=is_freed,
    )
