"""Whether a value may leave or enter, by the setting `policy`. Decisions alone; time is passed in.

The sending side asks before the first byte leaves, the receiving side at the announcement (size,
rate, call) and again before the hand-over (types). A refusal becomes the outcome of the consuming
call at both ends.
"""

from __future__ import annotations

import enum
import fnmatch
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fed import errors, names
from fed.config import policies
from fed.transport import contents as parts

#: The span that rates are counted over, and how finely. Bytes are counted in slots of a second, and
#: a slot counts until all of it is older than the span: a limit is never exceeded in any 60 s, and
#: a byte is counted for at most 61 s.
SPAN_S: Final = 60
SLOTS: Final = SPAN_S + 1


class Direction(enum.StrEnum):
    """Which way a value crosses, seen from this party."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether one value may cross, and if not, by which rule.

    Attributes:
        rule: name of the limit that the value breaks; empty if it may cross.
        limit: the limit in words.
        key: where it is set: `policy.send.peers.BOB.max_value_bytes`.
        reason: what is wrong with the value, in words that the peer may read.
        path: where inside the value, after its root.
        type_name: the type at `path`; empty for rules about the whole value.
    """

    rule: str = ""
    limit: str = ""
    key: str = ""
    reason: str = ""
    path: str = ""
    type_name: str = ""

    @property
    def is_allowed(self) -> bool:
        """True if the value may cross."""
        return not self.rule

    @property
    def told(self) -> str:
        """What the peer and the audit file are told: the reason, the limit and its key."""
        return f"{self.reason} (limit: {self.limit}; {self.key})"

    def error(
        self, *, party: str | None, call: int | None, type_name: str, root: str = "result"
    ) -> errors.ValueRefusedError:
        """The outcome of the consuming call at the side whose policy it is.

        Args:
            party: the value's owner.
            call: number of the call that made it.
            type_name: the value's own type.
            root: what the path starts with.
        """
        return errors.ValueRefusedError(
            path=root + self.path,
            type_name=self.type_name or type_name,
            reason=self.reason,
            limit=f"{self.limit}; {self.key}",
            party=party,
            call=call,
        )


ALLOWED: Final = Decision()


def refused_by_peer(
    peer: str, told: str, *, party: str | None, call: int | None, type_name: str
) -> errors.ValueRefusedError:
    """The outcome of the consuming call at the side that the refusal came back to.

    Args:
        peer: who refused.
        told: `Decision.told` as it arrived, already fit to be shown.
        party: the value's owner.
        call: number of the call that made it.
        type_name: the value's own type.
    """
    return errors.ValueRefusedError(
        path="result",
        type_name=type_name,
        reason=f"party {peer!r} refused it: {told}",
        party=party,
        call=call,
    )


class Window:
    """Bytes of the last minute, in at most `SLOTS` slots, whatever their number.

    Time may stand still; where it goes back it counts as standing still.
    """

    __slots__ = ("_at", "_slots", "used_bytes")

    def __init__(self) -> None:
        self._slots: deque[tuple[int, int]] = deque()  # (second, bytes), seconds ascending
        self._at = 0
        self.used_bytes = 0

    def is_room(self, size_bytes: int, limit_bytes: int, *, now_s: float) -> bool:
        """True if `size_bytes` more stay within the limit of every 60 s that have begun."""
        self._pass(now_s)
        return self.used_bytes + size_bytes <= limit_bytes

    def take(self, size_bytes: int, *, now_s: float) -> None:
        """Count them."""
        self._pass(now_s)
        self.used_bytes += size_bytes
        if self._slots and self._slots[-1][0] == self._at:
            size_bytes += self._slots.pop()[1]
        self._slots.append((self._at, size_bytes))

    def _pass(self, now_s: float) -> None:
        second = int(now_s // 1)
        if self._slots:
            second = max(second, self._at)
        self._at = second
        while self._slots and self._slots[0][0] < second - SPAN_S:
            self.used_bytes -= self._slots.popleft()[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    value: Any
    key: str


class Gate:
    """Decides for one party, and counts what each peer sent and was sent.

    Its state is bounded: a window for each peer and direction. Not for several threads at once.

    Args:
        policy: the setting.
        peers: the other parties that the settings know, the job's or not.

    Raises:
        ConfigError: the policy names a party that is none of them; its limits would limit nothing.
    """

    def __init__(self, policy: policies.Policy, *, peers: Collection[str]) -> None:
        self._limits: dict[tuple[Direction, str], Mapping[str, _Limit]] = {}
        self._windows: dict[tuple[Direction, str], Window] = {}
        for direction, rules in (
            (Direction.SEND, policy.send),
            (Direction.RECEIVE, policy.receive),
        ):
            for named in rules.peers:
                if named not in peers:
                    raise errors.ConfigError(
                        problem=f"there is no other party {named!r}"
                        f"{names.did_you_mean(named, peers)}",
                        fix="Leave it out, or correct the name",
                        key=f"policy.{direction}.peers.{named}",
                    )
            for peer in peers:
                self._limits[direction, peer] = _of_peer(direction, peer, rules)
                self._windows[direction, peer] = Window()

    def looks_inside(self, direction: Direction, peer: str) -> bool:
        """True if a rule about types applies, so that `contents` has to be asked."""
        limits = self._limits[direction, peer]
        return "types" in limits or "refused_types" in limits

    def contents(self, direction: Direction, peer: str, value: parts.Contents) -> Decision:
        """Whether the types in a value may cross. Counts nothing.

        Args:
            direction: which way.
            peer: the other party, by its certificate.
            value: made with `parts=contents.RULE_PARTS`; one that was not looked at as a whole is
                refused.
        """
        limits = self._limits[direction, peer]
        way = "leave this party for" if direction is Direction.SEND else "enter this party from"
        for rule in ("refused_types", "types"):
            limit = limits.get(rule)
            if limit is None:
                continue
            if not value.is_whole:
                return Decision(
                    rule=rule,
                    limit=_listed(limit.value),
                    key=limit.key,
                    reason=f"it has more parts than the {parts.RULE_PARTS} that are looked at, and "
                    "there is a rule about types",
                    type_name=value.type_name,
                )
            for name, path in value.kinds.items():
                if _matches(name, limit.value) is (rule == "refused_types"):
                    return Decision(
                        rule=rule,
                        limit=_listed(limit.value),
                        key=limit.key,
                        reason=f"no {name} may {way} {peer!r}",
                        path=path,
                        type_name=name,
                    )
        return ALLOWED

    def admit(
        self, direction: Direction, peer: str, *, size_bytes: int, call: str, now_s: float
    ) -> Decision:
        """Whether a value of this size may cross for this call; counts it if it may.

        To be asked once per value: an announcement that is repeated after a reconnect is not
        another value.

        Args:
            direction: which way.
            peer: the other party, by its certificate.
            size_bytes: of the encoded value.
            call: qualname of the call that consumes it, `get` for `fed.get`.
            now_s: monotonic time.
        """
        limits = self._limits[direction, peer]
        for rule in ("refused_calls", "calls"):
            limit = limits.get(rule)
            if limit is not None and _matches(call, limit.value) is (rule == "refused_calls"):
                return Decision(
                    rule=rule,
                    limit=_listed(limit.value),
                    key=limit.key,
                    reason=f"nothing may cross for {call[: parts.SHOWN_NAME]!r}",
                )
        limit = limits.get("max_value_bytes")
        if limit is not None and size_bytes > limit.value:
            return Decision(
                rule="max_value_bytes",
                limit=f"{limit.value} bytes",
                key=limit.key,
                reason=f"it takes {size_bytes} bytes",
            )
        window = self._windows[direction, peer]
        limit = limits.get("max_bytes_per_minute")
        if limit is None:
            return ALLOWED
        if not window.is_room(size_bytes, limit.value, now_s=now_s):
            return Decision(
                rule="max_bytes_per_minute",
                limit=f"{limit.value} bytes in any {SPAN_S} s",
                key=limit.key,
                reason=f"it takes {size_bytes} bytes, and {window.used_bytes} crossed in the last "
                f"{SPAN_S} s",
            )
        window.take(size_bytes, now_s=now_s)
        return ALLOWED


def _of_peer(direction: Direction, peer: str, rules: policies.Rules) -> dict[str, _Limit]:
    """The limits at one peer: its own, and the general ones that it does not replace."""
    own = rules.peers.get(names.PartyId(peer), policies.Limits())
    found: dict[str, _Limit] = {}
    for name in policies.LIMITS:
        for limits, key in ((own, f"peers.{peer}.{name}"), (rules.general, name)):
            value = getattr(limits, name)
            if value is not None:
                found[name] = _Limit(value=value, key=f"policy.{direction}.{key}")
                break
    return found


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _listed(patterns: Collection[str]) -> str:
    shown = ", ".join(list(patterns)[:8]) or "none"
    return f"{shown}, ..." if len(patterns) > 8 else shown
