"""Endpoints in one process, over real sockets and TLS: what they give, what they say is wrong."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.integration.transport import ends

from fed import errors
from fed.codec import types as table
from fed.transport import border, dialer, events, identity, listener

LINK = ("certificates", "plain")


class Color(enum.Enum):
    RED = 1


@pytest.fixture(params=LINK)
def folder(request, certificates):
    """The certificates; None for connections without TLS."""
    return certificates if request.param == "certificates" else None


def test_values_cross_both_ways(folder):
    array = np.arange(3_000_000, dtype=np.float32).reshape(3, -1)
    with ends.connected(folder) as (alice, bob, _):
        alice.send({"w": array, "n": [1, "two", None]}, to="BOB", number=3, call=1)
        bob.send("hello", to="ALICE", number=3, call=2)
        assert alice.receive("BOB", 2, number=3, timeout_s=10) == "hello"
        got = bob.receive("ALICE", 1, number=3, timeout_s=10)
        assert got["n"] == [1, "two", None]
        assert np.array_equal(got["w"], array)
        assert not got["w"].flags.writeable


def test_many_values_of_all_sizes_arrive_each_as_itself(folder):
    sizes = [1, 100, 5_000, 17_000, 70_000, 300_000, 1_100_000, 3_000_000]
    values = {n: os.urandom(sizes[n % len(sizes)]) for n in range(1, 60)}
    with ends.connected(folder, receive_budget_bytes=8 << 20) as (alice, bob, _):
        requests = {n: bob.expect([("ALICE", n, 0)], number=n) for n in values}
        back = {n: alice.expect([("BOB", n, 0)], number=n) for n in values}
        for n, value in values.items():
            alice.send(value, to="BOB", number=n, call=n)
            bob.send(value[::-1], to="ALICE", number=n, call=n)
        for n, value in values.items():
            assert requests[n].wait(20)
            assert requests[n].taken() == [value]
            assert back[n].wait(20)
            assert back[n].taken() == [value[::-1]]
        alice.drain(10)
        bob.drain(10)


def test_the_values_of_one_call_come_together(folder):
    with ends.connected(folder) as (alice, bob, _):
        done = threading.Event()
        request = bob.expect(
            [("ALICE", 2, 1), ("ALICE", 1, 0)], number=5, done=lambda request: done.set()
        )
        alice.send("first", to="BOB", number=5, call=1)
        assert not request.wait(0.1)
        alice.send("second", to="BOB", number=5, call=2, index=1)
        assert done.wait(10)
        assert request.taken() == ["second", "first"]


def test_calls_that_wait_for_one_value_all_get_it(folder):
    with ends.connected(folder) as (alice, bob, _):
        requests = [bob.expect([("ALICE", 1, 0)], number=n) for n in (3, 4)]
        alice.send(7, to="BOB", number=3, call=1).result(10)
        for request in requests:
            assert request.wait(10)
            assert request.taken() == [7]


def test_sent_says_when_the_consumer_has_it(folder):
    with ends.connected(folder) as (alice, bob, _):
        sent = alice.send(1, to="BOB", number=1, call=1)
        with pytest.raises(errors.FedTimeoutError, match="call 1 of party 'BOB'"):
            sent.result(0.1)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == 1
        sent.result(10)


def test_a_wait_that_is_over_leaves_the_value_where_it_is(folder):
    with ends.connected(folder) as (alice, bob, _):
        with pytest.raises(errors.FedTimeoutError) as caught:
            bob.receive("ALICE", 1, number=1, timeout_s=0.05)
        assert caught.value.party == "ALICE"
        alice.send("late", to="BOB", number=1, call=1)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == "late"


def test_notes_come_once_and_in_order(folder):
    heard = []

    def hear(party, event):
        if isinstance(event, events.Noted):
            heard.append((party, event.kind, event.body))

    with ends.connected(folder, bob={"heard": hear}) as (alice, _, _):
        for n in range(2000):
            alice.note(4, b"%d" % n, to="BOB")
        ends.wait_until(lambda: len(heard) == 2000)
        assert heard == [("ALICE", 4, b"%d" % n) for n in range(2000)]


def test_a_refused_value_is_named_at_both_ends(certificates):
    with ends.connected(certificates, bob={"max_value_bytes": 10_000}) as (alice, bob, _):
        with pytest.raises(errors.ValueRefusedError, match="more than party 'BOB' takes"):
            alice.send(bytes(20_000), to="BOB", number=1, call=1)
        alice.send(bytes(5_000), to="BOB", number=2, call=2)
        assert bob.receive("ALICE", 2, number=2, timeout_s=10) == bytes(5_000)


def test_a_value_that_can_not_be_decoded_is_named_at_both_ends(certificates):
    knows = table.UserTypes(None, None, classes={("geometry", "Color"): Color})
    with ends.connected(certificates, alice={"types": knows}) as (alice, bob, _):
        request = bob.expect([("ALICE", 1, 0)], number=1)
        sent = alice.send(Color(1), to="BOB", number=1, call=1)
        assert request.wait(10)
        with pytest.raises(errors.ValueRefusedError, match="geometry"):
            request.taken()
        with pytest.raises(errors.ValueRefusedError, match="'BOB' refused it"):
            sent.result(10)
        alice.send("honest", to="BOB", number=2, call=2)
        assert bob.receive("ALICE", 2, number=2, timeout_s=10) == "honest"


def test_the_digest_of_another_program_is_not_handed_over(certificates):
    with ends.connected(certificates) as (alice, bob, _):
        request = bob.expect([("ALICE", 1, 0)], number=1)
        alice.send(1, to="BOB", number=1, call=1, digest=b"x" * 32)
        assert request.wait(10)
        with pytest.raises(errors.DivergenceError, match="call 1"):
            request.taken()


def test_an_orderly_end_is_no_loss(folder):
    heard = []
    with ends.connected(folder, heard=lambda party, event: heard.append(event)) as (
        alice, bob, _,
    ):  # fmt: skip
        alice.send(5, to="BOB", number=1, call=1)
        threading.Timer(0.1, bob.receive, ("ALICE", 1), {"number": 1}).start()
        begin = time.monotonic()
        ends.shut_down(alice, bob)
        assert time.monotonic() - begin < 1.5
    assert sum(isinstance(event, events.Finished) for event in heard) == 2
    assert not [event for event in heard if isinstance(event, events.Failed | events.Down)]


def test_shutdown_names_what_was_left(certificates):
    with ends.connected(certificates) as (alice, bob, _):
        alice.send(5, to="BOB", number=1, call=1)
        with pytest.raises(errors.TransportError, match="1 values of"):
            alice.shutdown(0.2)
        with pytest.raises(errors.FedError, match="not drained"):
            bob.receive("ALICE", 2, number=1, timeout_s=10)


def test_a_failing_party_tells_the_others(folder):
    with ends.connected(folder) as (alice, bob, _):
        request = bob.expect([("ALICE", 1, 0)], number=1)
        alice.abort("ZeroDivisionError")
        assert request.wait(10)
        with pytest.raises(errors.PartyLostError, match="ZeroDivisionError") as caught:
            request.taken()
        assert caught.value.waiting_for == "the value of call 1"
        with pytest.raises(errors.PartyLostError):
            bob.send(1, to="ALICE", number=1, call=1)


def test_unread_values_spill_and_come_back(folder, tmp_path):
    values = {n: np.full(50_000, n, np.int64) for n in range(1, 21)}
    small = {n: os.urandom(30_000) for n in range(21, 221)}
    with ends.connected(
        folder, receive_budget_bytes=8 << 20, spill_quota_bytes=1 << 30, spill_dir=tmp_path
    ) as (alice, bob, _):
        # What is read last comes first, so that it has to make room.
        for n, value in sorted({**values, **small}.items(), reverse=True):
            alice.send(value, to="BOB", number=n, call=n)
        ends.wait_until(lambda: bob.spilled_bytes > 0)
        assert bob.used_bytes <= 8 << 20
        for n in [*values, *small]:
            got = bob.receive("ALICE", n, number=n, timeout_s=20)
            assert np.array_equal(got, values[n]) if n in values else got == small[n]
        ends.wait_until(lambda: bob.spilled_bytes == 0)
    assert list(tmp_path.iterdir()) == []


def test_beyond_budget_and_quota_a_named_error(certificates):
    keys = [("ALICE", n, 0) for n in range(1, 11)]
    with ends.connected(certificates, receive_budget_bytes=4 << 20) as (alice, bob, _):
        request = bob.expect(keys, number=20)
        for _, n, _ in keys:
            alice.send(bytes(2 << 20), to="BOB", number=20, call=n)
        assert request.wait(20)
        with pytest.raises(errors.TransportError, match="receive budget of 4194304 bytes"):
            request.taken()


class Border:
    """Lets values of some calls leave, be announced and enter; keeps record of all."""

    def __init__(self, *, leave=(), announce=(), enter=()):
        self.stops = {"leave": leave, "announce": announce, "enter": enter}
        self.record = []

    def refuse(self, way, call):
        if call in self.stops[way]:
            self.record.append((way, call, "refused"))
            raise errors.ValueRefusedError(path="result", type_name="int", reason=f"no {way}")

    def leaves(self, value, encoded, *, to, number, call, index):
        self.refuse("leave", call)
        sha = hashlib.sha256(b"".join(border.payload(encoded))).hexdigest()

        def outcome(error):
            self.record.append(("left", call, type(error).__name__ if error else sha))

        return outcome

    def announced(self, parcel):
        return "not announced like that" if parcel.call in self.stops["announce"] else ""

    def enters(self, value, parcel, payload):
        self.refuse("enter", parcel.call)
        assert len(payload) == parcel.size
        sha = hashlib.sha256(payload).hexdigest()
        self.record.append(("entered", parcel.call, sha))


def test_the_border_is_asked_and_hears_what_became_of_it(folder):
    sending, taking = Border(leave=[1]), Border(announce=[2, 3], enter=[4])
    values = {2: "small", 3: bytes(100_000), 4: 4, 5: np.arange(100_000), 6: "six"}
    with ends.connected(
        folder, alice={"border": sending}, bob={"border": taking}
    ) as (alice, bob, _):  # fmt: skip
        with pytest.raises(errors.ValueRefusedError, match="no leave"):
            alice.send(1, to="BOB", number=1, call=1)
        requests = {n: bob.expect([("ALICE", n, 0)], number=n) for n in values}
        sent = {n: alice.send(value, to="BOB", number=n, call=n) for n, value in values.items()}
        for n, words in ((2, "like that"), (3, "like that"), (4, "no enter")):
            assert requests[n].wait(10)
            with pytest.raises(errors.ValueRefusedError, match=words):
                requests[n].taken()
            with pytest.raises(errors.ValueRefusedError, match=words):
                sent[n].result(10)
        for n in (5, 6):
            assert requests[n].wait(10)
            assert np.array_equal(requests[n].taken()[0], values[n])
            sent[n].result(10)
        assert bob.used_bytes == 0
    left = {call: what for way, call, what in sending.record if way == "left"}
    entered = {call: what for way, call, what in taking.record if way == "entered"}
    assert left == {**dict.fromkeys((2, 3, 4), "ValueRefusedError"), **entered}
    assert set(entered) == {5, 6}


def test_a_value_that_comes_as_its_wait_ends_is_kept_for_the_next(certificates):
    taking = Border()
    begun, go_on = threading.Event(), threading.Event()
    plain_enters = taking.enters

    def enters(value, parcel, payload):
        plain_enters(value, parcel, payload)
        begun.set()
        assert go_on.wait(10)

    taking.enters = enters
    with ends.connected(certificates, bob={"border": taking}) as (alice, bob, _):
        request = bob.expect([("ALICE", 1, 0)], number=1)
        sent = alice.send("late", to="BOB", number=1, call=1)
        assert begun.wait(10)
        bob.forget(request)
        waiting = bob.expect([("ALICE", 1, 0)], number=1)
        bob.forget(waiting)
        go_on.set()
        sent.result(10)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == "late"
        assert len(taking.record) == 1


# --- the start: who is missing, and why -----------------------------------------------------------


def missing(end, timeout_s=0.6):
    with pytest.raises(errors.PartyError) as caught:
        end.start(timeout_s)
    end.abort("missing")
    return caught.value


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_a_port_where_nothing_listens_is_refused(certificates):
    address = f"127.0.0.1:{free_port()}"
    error = missing(ends.make_end(certificates, "ALICE", {"BOB": address}))
    assert isinstance(error, errors.PartyUnreachableError)
    assert (error.party, error.address) == ("BOB", address)
    assert "refused" in error.reason


def test_a_port_that_never_answers_is_no_answer(certificates):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        end = ends.make_end(certificates, "ALICE", {"BOB": address}, handshake_timeout_s=0.2)
        error = missing(end)
    assert "no answer" in str(error)


def test_a_name_that_nobody_knows_is_unknown(certificates):
    end = ends.make_end(certificates, "ALICE", {"BOB": "no-such-host.invalid:9000"})
    assert "name unknown" in str(missing(end, 3.0))


def test_a_peer_that_has_to_dial_has_not(certificates):
    error = missing(ends.make_end(certificates, "ALICE", {"BOB": None}), 0.1)
    assert "has not dialled" in str(error)


def test_all_who_are_missing_are_named(certificates):
    end = ends.make_end(certificates, "ALICE", {"BOB": None, "CAROL": f"127.0.0.1:{free_port()}"})
    text = str(missing(end, 0.4))
    assert "BOB" in text
    assert "'CAROL' is missing too: " in text
    assert "refused" in text


def test_a_party_with_a_certificate_of_another_authority_is_refused(certificates, tmp_path):
    strangers = ends.make_certificates(tmp_path / "other")
    bob = ends.make_end(certificates, "BOB", {"ALICE": None})
    bob.listen()
    alice = ends.make_end(strangers, "ALICE", {"BOB": bob.address}, listen=None)
    error = missing(alice)
    assert isinstance(error, errors.HandshakeError)
    assert "vouches" in error.reason
    told = missing(bob, 0.1)
    assert "does not trust" in str(told) or "has not dialled" in str(told)


def test_a_party_that_the_other_does_not_trust_hears_it(certificates, tmp_path):
    # BOB pins another authority than the one that signed ALICE's certificate; ALICE pins BOB's.
    strangers = ends.make_certificates(tmp_path / "other")
    bob = ends.make_end(strangers, "BOB", {"ALICE": None})
    bob.listen()
    alice = ends.make_end(certificates, "ALICE", {"BOB": bob.address}, listen=None)
    files = alice._identity._files
    pinned = dataclasses.replace(files, authority=strangers / "ca.pem")
    alice._identity = identity.Identity(pinned, federation=ends.FEDERATION, party="ALICE")
    error = missing(alice)
    assert isinstance(error, errors.HandshakeError)
    assert "does not trust this party's certificate" in error.reason
    bob.abort("over")


def test_another_party_at_the_address_is_refused(certificates):
    carol = ends.make_end(certificates, "CAROL", {"ALICE": None})
    carol.listen()
    error = missing(ends.make_end(certificates, "ALICE", {"BOB": carol.address}, listen=None))
    assert isinstance(error, errors.HandshakeError)
    assert "'CAROL'" in error.reason
    carol.abort("over")


def test_another_job_and_other_settings_are_refused_by_name(certificates):
    for changes, words in (({"job": "j2"}, "job"), ({"agreed": {"seed": "1"}}, "seed")):
        bob = ends.make_end(certificates, "BOB", {"ALICE": None}, **changes)
        bob.listen()
        alice = ends.make_end(certificates, "ALICE", {"BOB": bob.address}, listen=None)
        waiting = threading.Thread(target=missing, args=(bob, 2.0))
        waiting.start()
        error = missing(alice, 2.0)
        assert isinstance(error, errors.HandshakeError)
        assert words in str(error)
        waiting.join(10)


def test_the_start_waits_for_who_comes_late(certificates):
    port = free_port()
    alice = ends.make_end(certificates, "ALICE", {"BOB": f"127.0.0.1:{port}"}, listen=None)
    bob = ends.make_end(certificates, "BOB", {"ALICE": None}, listen=f"127.0.0.1:{port}")
    starting = threading.Thread(target=alice.start, args=(20,))
    starting.start()
    time.sleep(0.5)
    assert starting.is_alive()
    bob.start(20)
    starting.join(10)
    assert not starting.is_alive()
    ends.shut_down(alice, bob)


def test_parties_that_both_dial_meet(certificates):
    ports = free_port(), free_port()
    alice = ends.make_end(
        certificates, "ALICE", {"BOB": f"127.0.0.1:{ports[1]}"}, listen=f"127.0.0.1:{ports[0]}"
    )
    bob = ends.make_end(
        certificates, "BOB", {"ALICE": f"127.0.0.1:{ports[0]}"}, listen=f"127.0.0.1:{ports[1]}"
    )
    ends.start_all(alice, bob)
    alice.send(1, to="BOB", number=1, call=1)
    assert bob.receive("ALICE", 1, number=1, timeout_s=10) == 1
    ends.shut_down(alice, bob)


def test_three_parties(certificates):
    heads = {}
    order = ends.PARTIES
    addresses = {}
    for n, party in enumerate(order):
        peers = {one: addresses.get(one) for one in order if one != party}
        heads[party] = ends.make_end(certificates, party, peers)
        heads[party].listen()
        addresses[party] = heads[party].address
        assert n == len(addresses) - 1
    ends.start_all(*heads.values())
    for n, party in enumerate(order):
        for other in order:
            if other != party:
                heads[party].send(n, to=other, number=9, call=n + 1)
    for party in order:
        keys = [(one, n + 1, 0) for n, one in enumerate(order) if one != party]
        values = heads[party].receive_all(keys, number=9, timeout_s=10)
        assert values == [order.index(one) for one in order if one != party]
    ends.shut_down(*heads.values())


# --- addresses ------------------------------------------------------------------------------------


def test_ipv6_literals_and_names_work(certificates):
    for place in ("[::1]:0", "localhost:0"):
        bob = ends.make_end(certificates, "BOB", {"ALICE": None}, listen=place)
        try:
            bob.listen()
        except errors.ConfigError:
            pytest.skip("this machine has no IPv6")
        port = bob.address.rsplit(":", 1)[1]
        dialled = f"[::1]:{port}" if place.startswith("[") else f"localhost:{port}"
        alice = ends.make_end(certificates, "ALICE", {"BOB": dialled}, listen=None)
        ends.start_all(alice, bob)
        ends.shut_down(alice, bob)


def test_a_busy_port_names_its_holder():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(errors.ConfigError, match=f"taken by process {os.getpid()} "):
            listener.bind(f"127.0.0.1:{port}")


def test_listening_is_exclusive_and_only_where_told():
    (first,) = listener.bind("127.0.0.1:0")
    port = first.getsockname()[1]
    for place in (f"127.0.0.1:{port}", f"0.0.0.0:{port}"):
        with pytest.raises(errors.ConfigError, match="taken"):
            listener.bind(place)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), 1)
    first.close()


def test_an_address_of_another_machine_is_no_place_to_listen():
    with pytest.raises(errors.ConfigError, match="no address of this machine"):
        listener.bind("192.0.2.1:9000")


def test_addresses_that_are_not_safe_are_refused_at_once(certificates):
    for peers, listen, words in (
        ({"BOB": "10.0.0.7:9000"}, None, "no TLS"),
        ({"BOB": None}, "0.0.0.0:9000", "no TLS"),
        ({"BOB": None}, None, "does not listen"),
        ({"BOB": "127.0.0.1"}, None, "no port"),
    ):
        with pytest.raises(errors.ConfigError, match=words):
            ends.make_end(None, "ALICE", peers, listen=listen)
    with pytest.raises(errors.ConfigError, match="place to listen"):
        ends.make_end(certificates, "ALICE", {"BOB": "0.0.0.0:9000"}, listen=None)


class Proxy:
    """Takes HTTP CONNECT, as a gateway does; forwards, or answers what it is told to."""

    def __init__(self, answer=None):
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += near.recv(1)
            self.asked.append(head.split(b"\r\n")[0])
            if self._answer is not None:
                near.sendall(self._answer)
                near.close()
                continue
            host, port = head.split(b" ")[1].decode().rsplit(":", 1)
            far = socket.create_connection((host, int(port)))
            near.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            one.close()

    def close(self):
        self._socket.close()


def test_through_a_proxy(certificates):
    proxy = Proxy()
    with ends.connected(certificates, alice={"proxy": proxy.address}) as (alice, bob, _):
        alice.send(1, to="BOB", number=1, call=1)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == 1
        assert proxy.asked == [f"CONNECT {bob.address} HTTP/1.1".encode()] * 2
    proxy.close()


def test_a_proxy_that_refuses_is_the_cause(certificates):
    proxy = Proxy(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    end = ends.make_end(
        certificates, "ALICE", {"BOB": "bob.example:9000"}, listen=None, proxy=proxy.address
    )
    text = str(missing(end))
    assert "403 Forbidden" in text
    assert proxy.address in text
    proxy.close()


# --- certificates that end ------------------------------------------------------------------------


def test_a_connection_ends_with_the_certificate_and_comes_back(certificates):
    with ends.connected(certificates) as (alice, bob, _):
        carriers = [one.carrier for one in alice._peers["BOB"].channels]
        for one in carriers:
            peer = one.peer
            one.peer = type(peer)(party=peer.party, not_after=time.time() - 1, sha256=peer.sha256)
        alice.send(1, to="BOB", number=1, call=1)
        ends.wait_until(
            lambda: (
                all(one.carrier not in carriers for one in alice._peers["BOB"].channels)
                and alice._peers["BOB"].link.is_up
            )
        )
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == 1


def test_a_party_that_opens_many_connections_gets_few(certificates):
    with ends.connected(certificates) as (alice, bob, _):
        own = ends.identity_of(certificates, "ALICE")
        route = dialer.Route(party="BOB", address=bob.address)
        opened = [dialer.dial(route, own=own, timeout_s=10)[0] for _ in range(60)]
        assert len(bob._peers["ALICE"].channels) <= 16
        alice.send("honest", to="BOB", number=1, call=1)
        assert bob.receive("ALICE", 1, number=1, timeout_s=10) == "honest"
        for one in opened:
            one.close()


# --- the process' exit ----------------------------------------------------------------------------


def test_nothing_holds_the_exit(certificates):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.integration.transport import ends\n"
        "bob = ends.make_end(Path(sys.argv[1]), 'BOB', {'ALICE': None})\n"
        "bob.listen()\n"
        "alice = ends.make_end(Path(sys.argv[1]), 'ALICE', {'BOB': bob.address}, listen=None)\n"
        "ends.start_all(alice, bob)\n"
        "alice.send(bytes(1000), to='BOB', number=1, call=1)\n"
        "bob.expect([('ALICE', 7, 0)], number=9)\n"
        "print('done')\n"
    )
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(certificates)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ends.ROOT / "src"), str(ends.ROOT)])},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert time.monotonic() - begin < 30
