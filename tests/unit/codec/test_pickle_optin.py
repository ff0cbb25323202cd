from __future__ import annotations

import collections
import os
import pickle  # noqa: TID251  (what hostile peers send)
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fed import errors
from fed.codec import pickle_optin, types, wire

HERE = __name__


class Plain:
    """A class that the type table doesn't know."""

    def __init__(self, x: object) -> None:
        self.x = x


class Child(Plain):
    pass


class Reducing:
    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (3,)


def rebuild(n: int) -> object:
    return Plain(n)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("false",)


def accepting(*names: str) -> types.UserTypes:
    return types.UserTypes([], None, pickled=pickle_optin.Accepted(names))


BOTH = accepting(f"{HERE}.Plain")


def sent(value: object, sender: types.UserTypes, receiver: types.UserTypes) -> Any:
    encoded = wire.encode(value, types=sender)
    assert wire.size(value, types=sender) == encoded.size_bytes
    return wire.decode(encoded.header, b"".join(encoded.body()), types=receiver)


def test_named_classes_cross_with_their_arrays_by_the_table() -> None:
    weights = np.arange(1000.0)
    value = {"m": [Plain({"w": weights, "o": collections.OrderedDict(a=1)})]}
    for made in (sent(value, BOTH, BOTH), types.cross(value, types=BOTH)):
        inner = made["m"][0]
        assert type(inner) is Plain
        assert inner.x["o"] == {"a": 1}
        assert np.array_equal(inner.x["w"], weights)
        assert not inner.x["w"].flags.writeable
    encoded = wire.encode(value, types=BOTH)
    assert [b.nbytes for b in encoded.buffers] == [8000]


def test_pickles_are_off_by_default_at_both_sides() -> None:
    off = types.UserTypes([], None)
    with pytest.raises(errors.ValueRefusedError):
        wire.encode([Plain(1)], types=off)
    with pytest.raises(errors.ValueRefusedError, match="pickles are off"):
        sent([Plain(1)], BOTH, off)


def test_each_side_accepts_only_what_it_names() -> None:
    wide = accepting(HERE)
    assert type(sent(Child(1), wide, wide)) is Child
    with pytest.raises(errors.ValueRefusedError, match="Child isn't accepted"):
        sent(Child(1), wide, BOTH)
    with pytest.raises(errors.ValueRefusedError):
        sent(Child(1), BOTH, wide)
    with pytest.raises(errors.ValueRefusedError, match="Child isn't accepted"):
        wire.encode(Plain(Child(1)), types=BOTH)


def test_functions_are_accepted_one_by_one_only() -> None:
    wide = accepting(HERE)
    with pytest.raises(errors.ValueRefusedError, match="rebuild isn't accepted"):
        wire.encode(Reducing(), types=wide)
    named = accepting(HERE, f"{HERE}.rebuild")
    assert sent(Reducing(), named, named).x == 3
    with pytest.raises(errors.ValueRefusedError):
        wire.encode(Plain(lambda: 0), types=wide)
    with pytest.raises(errors.ValueRefusedError):
        wire.encode(Evil(), types=wide)


HOSTILE = {
    "system": b"cos\nsystem\n(S'false'\ntR.",
    "builtins": b"cbuiltins\neval\n(S'1'\ntR.",
    "through a module": f"c{HERE}\nos.system\n(S'false'\ntR.".encode(),
    "through a class": f"\x80\x05\x8c{chr(len(HERE))}{HERE}\x8c\x0ePlain.__init__\x93.".encode(
        "latin1"
    ),
    "imported name": f"c{HERE}\npickle_optin\n.".encode(),
    "extension code": b"\x80\x02\x82\x01.",
    "part that isn't there": b"\x80\x05K\x07Q.",
    "unknown module": b"cantigravity\nfly\n.",
    "huge claim": b"\x80\x05\x8e" + (1 << 40).to_bytes(8, "little") + b"x.",
    "junk": b"\xff",
    "more behind": b"N.N.",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="pickle"):
        pickle_optin.loads(HOSTILE[name], [], pickle_optin.Accepted([HERE]))
    assert "antigravity" not in sys.modules


def test_an_honest_pickle_of_another_class_is_refused() -> None:
    data = pickle.dumps(subprocess.Popen, protocol=5)
    with pytest.raises(ValueError, match="Popen isn't accepted"):
        pickle_optin.loads(data, [], pickle_optin.Accepted([HERE]))


def test_a_path_leads_to_what_is_refused() -> None:
    with pytest.raises(errors.ValueRefusedError) as caught:
        wire.encode({"a": [Plain(open)]}, types=BOTH)
    assert caught.value.path == 'result["a"][0]'
