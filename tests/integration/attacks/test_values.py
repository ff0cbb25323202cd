"""What a party may not send: nothing of it is run, and the link goes on for what it may send."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle  # noqa: TID251  (what hostile peers send)
import struct
import subprocess
import threading

import cloudpickle
import msgspec
import numpy as np
import pytest
from tests.integration.attacks import scenes, watching
from tests.unit.codec import test_hostile, values

from fed import errors
from fed.codec import pickle_optin, tags, types, wire
from fed.config import policies
from fed.transport import inbox, policy

if importlib.util.find_spec("torch"):
    # A library of the type table is imported when a value that needs it comes: not by an attack.
    import fed.codec.tensors  # noqa: F401

TRANSFER = "BOB's arrays to ALICE, answered by their digests"
Ext = msgspec.msgpack.Ext
Tag = tags.Tag
pack = msgspec.msgpack.Encoder().encode
ext, instance, header = test_hostile.ext, test_hostile.instance, test_hostile.header


def pickled(data):
    """Bytes as the tree in which a pickle crosses."""
    content = Ext(Tag.BYTES, data) if len(data) <= tags.INLINE_BYTES else Ext(Tag.LONG_BYTES, b"")
    return ext(Tag.PICKLED, [content, []])


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def refused_all(scene, liar, payloads):
    """Send payloads and have them wanted; what ALICE's calls, CAROL and the log hear of each."""
    requests = {
        n: scene.alice.expect([("CAROL", n, 0)], number=1_000_000 + n)
        for n in range(1, len(payloads) + 1)
    }
    for n, (head, body) in enumerate(payloads, 1):
        liar.send(head, body, call=n)
    told = {message: (code, words) for message, code, words in liar.refusals(len(payloads))}
    found = []
    for n, request in requests.items():
        assert request.wait(scenes.PATIENCE_S)
        with pytest.raises(errors.ValueRefusedError) as caught:
            request.taken()
        assert caught.value.party == "CAROL"
        scene.log.says(f"the value of call {n} of party CAROL may not come in")
        assert told[n][0] == inbox.NOT_DECODED
        found.append(str(caught.value))
    return found


def goes_on(scene, liar, call):
    """A value that CAROL may send comes in after all that."""
    liar.send(header(pack(["fine", call])), call=call)
    assert scene.alice.receive(
        "CAROL", call, number=2_000_000, timeout_s=scenes.PATIENCE_S
    ) == ["fine", call]  # fmt: skip


def test_the_watch_sees_what_runs():
    # What the other tests rely on when they say that nothing was run.
    def run():
        exec("1 + 1")
        pickle.loads(pickle.dumps(Named))

    with watching.Watch() as watch:
        thread = threading.Thread(target=run, name="fed-test")
        thread.start()
        thread.join(scenes.PATIENCE_S)
    assert {"exec", "compile", "pickle.find_class"} <= {event for _, event, _ in watch.ran}


def test_pickle_while_off(scene, tmp_path):
    canary = tmp_path / "executed"
    data = pickle.dumps(Runs(canary))
    trees = [pickled(data), [pickled(data)], {"a": 1}, ext(Tag.TUPLE, [pickled(data)])]
    trees[2] = ext(Tag.DICT, ["a", pickled(data)])
    payloads = [(header(pack(tree)), b"") for tree in trees]
    payloads += [(bytes(raw), b"") for raw in (data, pickle.dumps({"a": 1}), b"cos\nsystem\n.")]
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        words = refused_all(scene, liar, payloads)
        transfer.finish()
    assert all("pickles are off" in line for line in words[:4])
    assert all("doesn't start as a value" in line for line in words[4:])
    assert not canary.exists()
    pickle.loads(data)
    assert canary.exists(), "the pickle was harmless"
    goes_on(scene, liar, 100)


class Named:
    """Named by both sides for pickles."""


def test_pickle_of_what_is_not_named(make_scene, tmp_path):
    # ALICE takes pickles of one class; CAROL has others made and called.
    canary = tmp_path / "executed"
    named = pickle_optin.Accepted([f"{__name__}.Named"])
    scene = make_scene(types=types.UserTypes([], None, pickled=named))
    here = __name__.encode()
    hostile = [
        pickle.dumps(Runs(canary)),
        pickle.dumps(subprocess.Popen, protocol=5),
        pickle.dumps([Named, Runs(canary)], protocol=5),
        b"c" + here + b"\nRuns\n(S'x'\ntR.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93\x8c\x0aimport os\x0a\x85R.",
        b"\x80\x04\x8c" + bytes([len(here)]) + here + b"\x8c\x10Named.__init__.x\x93.",
    ]
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        refused_all(scene, liar, [(header(pack(pickled(data))), b"") for data in hostile])
        transfer.finish()
    assert not canary.exists()
    goes_on(scene, liar, 100)


def objects(canary):
    """A value of each kind that no type table has."""
    return {
        "function": os.system,
        "lambda": lambda: canary.mkdir(),
        "class": Runs,
        "module": subprocess,
        "instance": Runs(canary),
        "object array": np.array([Runs(canary)], object),
        "exception": ValueError("x"),
        "bytearray": bytearray(b"x"),
        "subclass of dict": type("Sub", (dict,), {})(a=1),
        "range": range(3),
        "slice": slice(1, 2),
        "iterator": iter([1, 2]),
        "memory view": memoryview(b"x"),
        "lock": threading.Lock(),
        "generator": (n for n in range(3)),
        "file": open(os.devnull),
        "masked array": np.ma.masked_array([1, 2], [0, 1]),
        "matrix of objects": np.empty((2, 2), object),
    }


CLASSES = (
    ("builtins", "type"), ("builtins", "exec"), ("builtins", "object"), ("os", "system"),
    ("posix", "system"), ("subprocess", "Popen"), ("types", "FunctionType"), ("types", "CodeType"),
    ("functools", "partial"), ("operator", "methodcaller"), ("importlib", "import_module"),
    ("threading", "Thread"), ("socket", "socket"), ("pathlib", "PosixPath"), ("enum", "Enum"),
    ("ctypes", "CDLL"), ("__main__", "anything"), ("antigravity", "C"), ("", ""), (".", "."),
    (values.__name__, "Key.__class__"), (values.__name__, "Key.__init__"),
    (values.__name__ + "\nERROR all is lost", "Key"), (values.__name__, "np.ndarray"),
)  # fmt: skip


def test_every_refused_type(make_scene, tmp_path):
    canary = tmp_path / "executed"
    scene = make_scene(types=values.USER)
    payloads = []
    for name, value in objects(canary).items():
        # An honest sender's codec does not take it;
        with pytest.raises(errors.ValueRefusedError):
            wire.encode(value, types=values.USER)
        # a liar sends it in the way in which it would cross elsewhere.
        with contextlib.suppress(TypeError, pickle.PicklingError):
            data = cloudpickle.dumps(value)
            assert data, name
            body = data if len(data) > tags.INLINE_BYTES else b""
            payloads.append((header(pack(pickled(data)), [len(body)] if body else ()), body))
        with contextlib.suppress(AttributeError):
            value.close()
    for module, name in CLASSES:
        for kind in ("dataclass", "struct", "namedtuple", "enum"):
            payloads.append((header(pack(instance(kind, module, name, ["a"], ["true"]))), b""))
    payloads += [(header(pack(tree)), b"") for tree, _ in test_hostile.MALFORMED.values()]
    payloads += [(header(tree), b"") for tree in test_hostile.SPELLINGS.values()]
    assert len(payloads) > 150
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        refused_all(scene, liar, payloads)
        transfer.finish()
    assert not canary.exists()
    assert all(len(line.splitlines()) == 1 for line in scene.log.lines("CAROL"))
    goes_on(scene, liar, 1000)


def test_lengths_in_values(scene):
    # Oversized, negative and contradictory lengths inside a value.
    claims = [
        tags.MAGIC + struct.pack("<I", 0xFFFFFFFF) + bytes(100),
        tags.MAGIC + struct.pack("<I", 0x80000000) + bytes(100),
        tags.MAGIC + struct.pack("<I", 1000) + bytes(100),
        *(
            header(pack(Ext(Tag.LONG_BYTES, b"")), [length])
            for length in (1 << 63, (1 << 64) - 1, 17 << 30, 1 << 20)
        ),
        *(
            header(first + b"\xff\xff\xff\xff\x01")
            for first in (b"\xdd", b"\xc6", b"\xdf", b"\xdb", b"\xc9")
        ),
        *(
            header(pack(ext(Tag.ARRAY, ["<f8", 0, shape, test_hostile.ARRAY[3]])))
            for shape in ([-1], [-1, -2], [1 << 62], [1 << 61, 0, 1 << 61], [2, 1 << 40])
        ),
        header(b"\x91" * 1_000) + b"\x01",
    ]
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        refused_all(scene, liar, [(head, b"") for head in claims])
        transfer.finish()
    goes_on(scene, liar, 100)


def test_a_value_larger_than_allowed(make_scene):
    # Refused at its announcement: none of its bytes has to come.
    scene = make_scene(max_value_bytes=1 << 20)
    liar = scene.liar()
    with scene.honest(TRANSFER) as transfer:
        sizes = ((1 << 20) + 1, 1 << 40, (1 << 63) - 1)
        for call, size in enumerate(sizes, 1):
            liar.control.send(liar.meta(size, call=call, flags=0, head_size=1000))
        told = liar.refusals(len(sizes))
        transfer.finish()
    assert [code for _, code, _ in told] == [inbox.TOO_LARGE] * 3
    for call in (1, 2, 3):
        scene.log.says(f"the value of call {call} of party CAROL may not come in")
    goes_on(scene, liar, 100)


class Bordered:
    """A border that asks a policy, and keeps no record."""

    def __init__(self, rules, peers):
        self._gate = policy.Gate(rules, peers=peers)
        self._lock = threading.Lock()

    def leaves(self, value, encoded, *, to, number, call, index):
        said = self._asked(policy.Direction.SEND, to, encoded.size_bytes)
        if not said.is_allowed:
            raise said.error(party="ALICE", call=call, type_name="bytes")
        return lambda error: None

    def announced(self, parcel):
        said = self._asked(policy.Direction.RECEIVE, parcel.party, parcel.size)
        return "" if said.is_allowed else said.told

    def enters(self, value, parcel, payload):
        pass

    def _asked(self, way, peer, size_bytes):
        with self._lock:
            return self._gate.admit(way, peer, size_bytes=size_bytes, call="get", now_s=0)


def test_policy_refuses_at_both_ends(make_scene):
    # BOB's honest arrays are within ALICE's policy for him; CAROL's are not within hers.
    limits = policies.Limits(max_value_bytes=10_000)
    to_carol = policies.Rules(peers={"CAROL": limits})
    rules = policies.Policy(send=to_carol, receive=to_carol)
    scene = make_scene(border=Bordered(rules, ["BOB", "CAROL"]))
    liar = scene.liar()
    request = scene.alice.expect([("CAROL", 1, 0)], number=1_000_001)
    with pytest.raises(errors.ValueRefusedError, match=r"policy\.send\.peers\.CAROL"):
        scene.alice.send(bytes(11_000), to="CAROL", number=1, call=1)
    with scene.honest(TRANSFER) as transfer:
        liar.send(header(pack(["x" * 11_000])), call=1)
        ((_, code, words),) = liar.refusals(1)
        transfer.finish()
    assert code == inbox.FORBIDDEN
    assert "policy.receive.peers.CAROL.max_value_bytes" in words
    assert request.wait(scenes.PATIENCE_S)
    with pytest.raises(errors.ValueRefusedError, match="max_value_bytes"):
        request.taken()
    scene.log.says("the value of call 1 of party CAROL may not come in", "max_value_bytes")
    goes_on(scene, liar, 100)
