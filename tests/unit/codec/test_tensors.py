from __future__ import annotations

from typing import Any

import pytest

from fed import errors
from fed.codec import types, wire

torch = pytest.importorskip("torch")

USER = types.UserTypes([], None)


def crossed(value: object) -> Any:
    return types.cross(value, types=USER)


def sent(value: object) -> Any:
    encoded = wire.encode(value, types=USER)
    assert wire.size(value) == encoded.size_bytes
    return wire.decode(encoded.header, b"".join(encoded.body()), types=USER)


DTYPES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (3, 4), (40, 50)], ids=str)
def test_tensors_arrive_as_they_cross(name: str, shape: tuple[int, ...]) -> None:
    value = torch.ones(shape).to(getattr(torch, name))
    for variant in (value, value.transpose(0, -1) if shape else value):
        for made in (crossed([variant])[0], sent([variant])[0]):
            assert type(made) is torch.Tensor
            assert (made.dtype, made.shape) == (variant.dtype, variant.shape)
            assert torch.equal(made, variant)
            assert made.is_contiguous()
            assert made.data_ptr() != variant.data_ptr() or not made.numel()


def test_other_tensors_are_refused() -> None:
    for value in (
        torch.ones(2, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
    ):
        for refuse in (crossed, lambda v: wire.encode(v, types=USER)):
            with pytest.raises(errors.ValueRefusedError):
                refuse([value])
