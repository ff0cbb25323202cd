"""The names of parties and nodes, and the one rule that every name keeps.

A leaf: nothing here imports another part of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NewType

PartyId = NewType("PartyId", str)
NodeId = NewType("NodeId", str)

#: The longest name, in characters: a DNS label, so that a name can stand in a certificate, an SNI
#: field and a Kubernetes label unchanged.
MAX_NAME_LENGTH = 63

NAME_RULE = (
    "1 to 63 characters: letters, digits, '.', '_' and '-', first and last a letter or a digit"
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def is_name(text: object) -> bool:
    """True if `text` is a string that keeps the rule for names (`NAME_RULE`)."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None where none is close.

    Case is ignored. Of equally close words the first one given wins, so the answer is the same
    in every process. Looks at no more than 10,000 words, so that an error stays quick.
    """
    import difflib
    import itertools

    by_fold: dict[str, str] = {}
    for name in itertools.islice(known, 10_000):
        by_fold.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The text `; did you mean 'x'?`, or an empty one where nothing known is close."""
    name = nearest(word, known)
    return f"; did you mean {name!r}?" if name is not None else ""
