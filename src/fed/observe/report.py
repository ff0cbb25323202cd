"""What one session did, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one session did, taken when it ended.

    Attributes:
        mode: the mode it ran in.
        parties: how many parties made or received a call.
        calls: numbers taken, the verbs included.
        crossed_values: values that crossed between parties, each once per receiving party.
        crossed_bytes: their encoded sizes.
        got_values: values that `fed.get` gave the script.
        spilled_bytes: bytes of results that were written to disk.
        program_digest: hexadecimal digest of all call records.
        values_digest: hexadecimal digest of the values that `fed.get` gave, None if not asked for.
        unread: errors that nobody read, by the id of the fed object, the first thousand as text.
        unread_count: how many there are in all.
    """

    mode: str
    parties: int
    calls: int
    crossed_values: int
    crossed_bytes: int
    got_values: int
    spilled_bytes: int
    program_digest: str
    values_digest: str | None
    unread: Mapping[str, str]
    unread_count: int
