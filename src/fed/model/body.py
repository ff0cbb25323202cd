"""The body that runs now: what `fed.current_party`, `fed.rng` and the misuse checks look at."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy


class Body(Protocol):
    """What whoever runs bodies tells of the one that runs in the present context."""

    @property
    def party(self) -> str | None:
        """The executing party, or None while no body runs."""

    @property
    def what(self) -> str:
        """The call in words, for errors."""

    def generator(self) -> numpy.random.Generator:
        """The body's own random generator: the same one each time it is asked for."""


#: Set by whoever runs a body in a context of its own; where it is not, `Engine.running_body` knows.
current: ContextVar[Body | None] = ContextVar("fed_body", default=None)


def generator(
    *, seed: int, party: str, name: str, ordinal: int, index: int
) -> numpy.random.Generator:
    """A numpy generator (Philox 4x64) that depends on the arguments alone.

    Its 128-bit key is the head of the SHA-256 of the arguments, so bodies that differ in any of
    them have independent streams, and the same body has the same stream in every mode, process
    and order of execution. Anybody who knows the arguments can compute it.

    Args:
        seed: the session's seed.
        party: the executing party.
        name: `__qualname__` of the function or method.
        ordinal: which of that party's actors of its class, from 0; for functions 0.
        index: how many calls of that function or method came before at that party or actor.

    Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox).
    """
    import numpy as np

    text = "\0".join((str(seed), party, name, str(ordinal), str(index)))
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    bit_generator: Any = np.random.Philox(key=key)
    return np.random.Generator(bit_generator)
