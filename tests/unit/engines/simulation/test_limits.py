"""What may not cross because of its size: every kind of value, on every way."""

from collections.abc import Iterator

import numpy as np
import pytest

import fed


@pytest.fixture
def session() -> Iterator[None]:
    fed.init(max_value_bytes=1000)
    yield
    fed.shutdown()


class Reader:
    def size(self, value: object) -> int:
        return len(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [b"x" * 2000, "x" * 2000, np.zeros(1000), {"a": np.zeros(1000)}, [b"x" * 2000]]
)
@pytest.mark.usefixtures("session")
def test_a_value_over_the_limit_crosses_nowhere_and_passes_inside_its_party(value: object) -> None:
    made = fed.put(value, party="ALICE")
    at_alice = fed.remote(Reader).party("ALICE").remote()
    at_bob = fed.remote(Reader).party("BOB").remote()
    assert fed.get(at_alice.size.remote(made)) == len(value)  # type: ignore[arg-type]
    for crossing in (made, at_bob.size.remote(made)):
        with pytest.raises(fed.ValueRefusedError, match="max_value_bytes = 1,000") as caught:
            fed.get(crossing)
        assert (caught.value.party, caught.value.call) == ("ALICE", made.number)


@pytest.mark.parametrize("count", [3_000_000])
@pytest.mark.usefixtures("session")
def test_too_many_parts_are_refused_as_the_wire_format_refuses_them(count: int) -> None:
    made = fed.put([1] * count, party="ALICE")
    with pytest.raises(fed.ValueRefusedError, match="items"):
        fed.get(made)


@pytest.mark.usefixtures("session")
def test_a_value_below_the_limit_crosses() -> None:
    made = fed.put(b"x" * 900, party="ALICE")
    assert fed.get(fed.remote(Reader).party("BOB").remote().size.remote(made)) == 900


def test_a_folder_for_spilled_results_that_is_not_there_is_refused_at_the_start() -> None:
    with pytest.raises(fed.ConfigError, match=r"spill_dir.*'/no/such/folder'") as caught:
        fed.init(spill_dir="/no/such/folder")
    assert caught.value.key == "spill_dir"
    fed.init()
    fed.shutdown()
