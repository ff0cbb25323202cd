"""torch's part of the type table: CPU tensors of plain dtypes.

Imported once the program has loaded torch, or when a value that holds a tensor arrives. A tensor
has no read-only form, so the reader's is its own copy.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fed.codec import types

_DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def handler(cls: type) -> types.Handler | None:
    """How instances of a class of torch cross; None if they don't."""
    return cross if cls is torch.Tensor else None


def cross(value: Any, _: object = None, __: int = 0) -> Any:
    """The tensor as the other side gets it: contiguous, with memory of its own.

    Raises:
        ValueRefusedError: if it may not cross.
    """
    check(value)
    return _plain(value).clone(memory_format=torch.contiguous_format)


def check(value: Any) -> None:
    """Return if the tensor may cross.

    Raises:
        ValueRefusedError: with an empty path, if it may not.
    """
    if value.device.type != "cpu":
        raise types.refusal(value, f"it is on {value.device}; send value.cpu()")
    if value.layout is not torch.strided or value.is_quantized:
        raise types.refusal(value, "only dense tensors cross; send value.to_dense()")
    if value.requires_grad:
        raise types.refusal(value, "gradients don't cross; send value.detach()")
    if value.dtype not in _NAMES:
        raise types.refusal(value, f"tensors of {value.dtype} don't cross; convert it")


def parts_of(value: Any) -> tuple[str, list[int], memoryview]:
    """Name of the dtype, shape, and the elements' bytes in C order; copied only if they must be.

    Raises:
        ValueRefusedError: if the tensor may not cross.
    """
    check(value)
    dense = _plain(value).contiguous()
    raw = dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else b""
    return _NAMES[value.dtype], list(value.shape), memoryview(raw)


def rebuilt(name: Any, shape: tuple[int, ...], data: memoryview | bytes) -> Any:
    """The tensor of such parts.

    Raises:
        ValueError: if they don't describe one.
    """
    dtype = _DTYPES.get(name) if type(name) is str else None
    if dtype is None or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("a tensor is malformed")
    if not len(data):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _plain(value: Any) -> Any:
    return value.detach().resolve_conj().resolve_neg()
