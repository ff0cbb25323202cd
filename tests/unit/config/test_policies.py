"""The setting `policy`: what it accepts, and where it says that something is wrong."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import OrderedDict

import numpy as np
import pytest

from fed import errors
from fed.codec import types
from fed.config import federation, layers, policies
from fed.transport import contents


def test_every_limit_is_read() -> None:
    made = policies.parse(
        {
            "send": {
                "types": ["numpy.*", "dict", "clinic.models.Model"],
                "refused_calls": ["debug_*"],
                "max_value_bytes": "10 MB",
                "peers": {"BOB": {"max_bytes_per_minute": 5, "types": []}},
            },
            "receive": {"refused_types": ["pandas.DataFrame"], "calls": ["mean", "get"]},
        }
    )
    assert made == policies.Policy(
        send=policies.Rules(
            general=policies.Limits(
                types=("numpy.*", "dict", "clinic.models.Model"),
                refused_calls=("debug_*",),
                max_value_bytes=10**7,
            ),
            peers={"BOB": policies.Limits(max_bytes_per_minute=5, types=())},
        ),
        receive=policies.Rules(
            general=policies.Limits(refused_types=("pandas.DataFrame",), calls=("mean", "get"))
        ),
    )
    assert policies.parse(made) is made
    assert policies.parse({}) == policies.Policy()


@pytest.mark.parametrize(
    ("value", "key", "problem"),
    [
        ([], None, "is not a mapping with send, receive"),
        ({"sent": {}}, ".sent", "there is no such key; did you mean 'send'?"),
        ({"send": {"max_value_byte": 1}}, ".send.max_value_byte", "did you mean 'max_value_bytes'"),
        ({"send": {"max_value_bytes": 0}}, ".send.max_value_bytes", "is not a size"),
        ({"send": {"types": "dict"}}, ".send.types", "is not a list of names"),
        ({"send": {"types": ["dict", "lst"]}}, ".send.types[1]", "did you mean 'list'?"),
        ({"send": {"types": ["nump*"]}}, None, None),
        ({"send": {"types": ["numpy.ndaray"]}}, ".send.types[0]", "did you mean 'numpy.ndarray'?"),
        ({"send": {"types": ["xyz*"]}}, ".send.types[0]", "no type is called 'xyz*'"),
        ({"send": {"types": [7]}}, ".send.types[0]", "7 is not a name"),
        ({"send": {"calls": [""]}}, ".send.calls[0]", "is not a name"),
        ({"send": {"calls": None}}, ".send.calls", "it has no value"),
        ({"send": {"types": ["str"] * 1001}}, ".send.types", "more than the 1000"),
        ({"send": {"types": ["str"], "refused_types": ["str"]}}, ".send.types", "both allowed"),
        ({"receive": {"peers": ["BOB"]}}, ".receive.peers", "is not a mapping of party names"),
        ({"receive": {"peers": {"B B": {}}}}, ".receive.peers.B B", "is not a party's name"),
        ({"receive": {"peers": {"B": {"peers": {}}}}}, ".receive.peers.B.peers", "no such key"),
    ],
)
def test_an_error_names_the_key_and_the_nearest(value, key, problem) -> None:
    if problem is None:
        policies.parse(value)  # a pattern that matches some type of the table
        return
    with pytest.raises(errors.ConfigError) as caught:
        policies.parse(value)
    assert caught.value.key == key
    assert problem in str(caught.value)


def test_a_file_gives_it_with_the_line_of_an_error() -> None:
    text = "policy:\n  send:\n    peers:\n      BOB:\n        max_value_bytes: 3 MB\n"
    made = federation.parse(text, source="federation.yaml").entries["policy"].value
    assert made.send.peers == {"BOB": policies.Limits(max_value_bytes=3_000_000)}
    with pytest.raises(errors.ConfigError) as caught:
        federation.parse(text.replace("_value", "_valu"), source="federation.yaml")
    assert caught.value.key == "policy.send.peers.BOB.max_valu_bytes"
    assert (caught.value.source, caught.value.line) == ("federation.yaml", 5)


def test_a_variable_gives_it_as_json() -> None:
    layer = layers.from_environ({"FED_POLICY": '{"send": {"max_value_bytes": 7}}'})
    assert layer.entries["policy"].value.send.general.max_value_bytes == 7
    with pytest.raises(errors.ConfigError, match="is not a mapping"):
        layers.from_environ({"FED_POLICY": "send=7"})


#: One value of each type of the table that needs no optional library.
EXAMPLES = [
    None, True, 1, 1.0, 1j, "a", b"a", [], (), set(), frozenset(), {}, OrderedDict(),
    datetime.datetime(2026, 1, 1), datetime.date(2026, 1, 1), datetime.time(1),
    datetime.timedelta(1),
    datetime.UTC, decimal.Decimal(1), uuid.UUID(int=1), np.zeros(1),
    *(np.zeros(1, dtype)[0] for dtype in (
        "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "U3",
        "S3", "M8[s]", "m8[s]", [("a", "i4")],
    )),
]  # fmt: skip


def test_the_names_are_those_of_the_type_table() -> None:
    user = types.UserTypes(None, None)
    met = set()
    for value in EXAMPLES:
        types.cross(value, types=user)
        met.add(contents.name_of(type(value), value, user))
    built_in = {contents.name_of(cls, None, user) for cls in types.UserTypes(None, None).handlers}
    assert built_in | met == {
        name for name in policies.TYPE_NAMES if not name.startswith(("pandas", "pyarrow", "torch"))
    }
