from __future__ import annotations

from fed.observe import memory


def test_memory_that_was_used_is_seen() -> None:
    before = memory.resident_bytes()
    block = bytearray(b"x") * (64 * 2**20)
    grown = memory.resident_bytes() - before
    assert grown > 50 * 2**20
    assert memory.peak_bytes() >= memory.resident_bytes() - 2**20
    del block
    assert memory.peak_bytes() >= before + 50 * 2**20


def test_without_proc_the_systems_own_figure_is_taken(monkeypatch) -> None:
    linux = memory.peak_bytes()
    monkeypatch.setattr(memory, "_status", lambda name: None)
    # The unit is right: the two figures of one process are of the same size.
    assert linux / 20 < memory.peak_bytes() < linux * 20
    assert memory.resident_bytes() == memory.peak_bytes()
