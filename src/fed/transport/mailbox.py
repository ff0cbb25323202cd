"""Where values wait for the calls that need them, within one budget of memory for all peers.

Every byte that a peer may send was promised room first: a *window* per peer that it may use at any
time, and grants from the rest of the budget, to the lowest consumer call number first. A part of
the budget is the *reserve* of the lowest waiting call. That call is always served: from the
reserve; then one of its values may pass the budget; then unread values go to disk. If all that is
not enough, it gets a named error. docs/frames.md has the wire's side of it.

Why that can't deadlock: take the lowest-numbered call of the whole program that has not finished.
Its arguments are results of lower calls, so they exist; their owners offer them, because of all
they have they offer the lowest consumer numbers; its party has it as lowest waiting call, so it
grants them one after another, and each that is taken or spilled makes place for the next.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, Final, TypeAlias

from fed import errors
from fed.transport import events, inbox, outbox

Key: TypeAlias = tuple[str, int, int]
"""(party that sends it, call that made it, index of the result)."""

#: The largest window of one peer: enough for 5 Gbit/s at 100 ms (NVFlare, stream_const.py).
WINDOW_LIMIT: Final = 64 << 20
#: All windows together take at most one part in so many of the budget.
WINDOW_SHARE: Final = 2
#: The lowest waiting call's reserve is one part in so many of the budget without the windows.
RESERVE_SHARE: Final = 4


class _Call:
    """One call that waits: which of its values are missing, and which of those are offered."""

    __slots__ = ("missing", "number", "offers", "overflowed")

    def __init__(self, number: int) -> None:
        self.number = number
        self.missing: set[Key] = set()
        self.offers: dict[int, inbox.Parcel] = {}  # by identity, in order of offer
        self.overflowed = False


class Mailbox:
    """The values of all peers on their way to this party's calls.

    Not locked: one lock of the owner guards the mailbox and the links that feed it. `events` is to
    be emptied after every call of any of them.

    A call's needs are to be registered when nothing but values of peers keeps it from starting (its
    party's own arguments exist, the call before it in its lane has ended): the mailbox relies on it
    that values are taken soon once their call has all of them. A need registered too early can
    hold the room that a lower call waits for.

    Args:
        budget_bytes: memory for values that were not handed over, all peers together.
        spill_bytes: disk for them; 0 to have none.
        peers: how many peers there will be; each gets an equal window.
        takes_singly: the owner takes each value as it becomes ready, not all values of a call at
            once. Then no call can be too large for budget and quota; but values in the owner's
            hands are not counted here.
    """

    __slots__ = (
        "_by_key", "_calls", "_heap", "_incomplete", "_needs", "_numbers", "_order", "_over",
        "_reserve", "_room", "_spill_free", "_spillable", "_spilling", "_taken", "_takes_singly",
        "_used", "budget_bytes", "events", "spill_bytes", "window_bytes",
    )  # fmt: skip

    def __init__(
        self, *, budget_bytes: int, spill_bytes: int, peers: int, takes_singly: bool = False
    ) -> None:
        self.budget_bytes = budget_bytes
        self.spill_bytes = spill_bytes
        self.window_bytes = min(WINDOW_LIMIT, budget_bytes // (WINDOW_SHARE * max(peers, 1)))
        self.events: deque[events.MailboxEvent] = deque()
        self._takes_singly = takes_singly
        self._room = budget_bytes - self.window_bytes * peers
        self._reserve = self._room // RESERVE_SHARE
        self._used = 0
        self._over: inbox.Parcel | None = None
        self._spill_free = spill_bytes
        # What moves the budget without the owner's help: values on the way, to disk, in hand.
        self._incomplete = 0
        self._spilling = 0
        self._taken = 0
        self._by_key: dict[Key, inbox.Parcel] = {}
        self._needs: dict[Key, list[_Call]] = {}
        self._calls: dict[int, _Call] = {}
        self._numbers: list[int] = []  # heap of the calls' numbers
        self._heap: list[tuple[int, int, inbox.Parcel]] = []  # what wants budget, lowest call first
        self._spillable: list[tuple[int, int, inbox.Parcel]] = []  # highest call first
        self._order = 0

    # What the owner says.

    def need(self, number: int, *keys: Key) -> None:
        """Call `number` waits for these values. `Ready` follows for each, now or later.

        Calls may wait for the same value: `Ready` comes once, and whichever call comes first
        takes it for all of them.
        """
        call = self._calls.get(number)
        if call is None:
            call = _Call(number)
        for key in keys:
            calls = self._needs.setdefault(key, [])
            if call in calls:
                continue
            calls.append(call)
            parcel = self._by_key.get(key)
            if parcel is not None and parcel.complete:
                if len(calls) == 1:
                    self.events.append(events.Ready(parcel=parcel))
                continue
            call.missing.add(key)
            if parcel is not None and parcel.account == inbox.WAITING:
                call.offers[id(parcel)] = parcel
        if call.missing and number not in self._calls:
            self._calls[number] = call
            heapq.heappush(self._numbers, number)
        if self._heap:
            self._settle()

    def forget(self, number: int) -> None:
        """Call `number` does not wait any more (a `get` timed out). Its values stay."""
        call = self._calls.pop(number, None)
        for key in list(self._needs):
            calls = [one for one in self._needs[key] if one.number != number]
            if calls:
                self._needs[key] = calls
            else:
                del self._needs[key]
        if call is not None:
            call.missing.clear()
            call.offers.clear()
        if self._heap:
            self._settle()

    def take(self, parcel: inbox.Parcel, *, digest: bytes) -> None:
        """Hand the value to its consumer: `parcel.buffer` holds it, or `parcel.token` says where.

        `digest` is this party's own digest at `parcel.number`. Say `handed_over` once the
        consumer's store has the value.

        Raises:
            DivergenceError: if the sender's digest is another one; the value stays where it is.
            TransportError: if the link ended before, and the value with it.
        """
        if parcel.account == inbox.GONE:
            raise errors.TransportError(
                party=parcel.party, reason=f"{parcel!r} was dropped when the link ended"
            )
        if parcel.digest != digest:
            raise errors.DivergenceError(
                party=parcel.party,
                call=parcel.number,
                ours=f"digest {digest.hex()[:16]}",
                theirs=f"digest {parcel.digest.hex()[:16]}",
            )
        if not parcel.taken:
            parcel.taken = True
            self._taken += 1

    def handed_over(self, parcel: inbox.Parcel) -> None:
        """The consumer's store has it: the peer is told, the memory is free for others."""
        if parcel.account == inbox.GONE:
            return
        account = parcel.account
        self._leave(parcel)
        parcel.inbox.acknowledge(parcel)
        parcel.buffer = None
        self._free(parcel, account)

    def refuse(self, parcel: inbox.Parcel, code: int, reason: str) -> None:
        """Never take it (policy, not decodable, no room); the peer is told why."""
        if parcel.account == inbox.GONE:
            return
        account = parcel.account
        self._leave(parcel)
        parcel.inbox.refuse(parcel, code, reason)
        self._free(parcel, account)

    def spilled(self, parcel: inbox.Parcel, token: Any) -> bool:
        """The value is on disk; its memory is free. False if it is not wanted there any more."""
        if not parcel.spilling:
            return False
        parcel.spilling = False
        self._spilling -= 1
        if parcel.account == inbox.GONE or parcel.taken:
            self._spill_free += parcel.size
            self._settle()
            return False
        parcel.token = token
        parcel.buffer = None
        self._used -= parcel.size
        self._after_release()
        return True

    def not_spilled(self, parcel: inbox.Parcel) -> None:
        """Writing it failed: it stays in memory, and is not asked for again."""
        if parcel.spilling:
            parcel.spilling = False
            self._spilling -= 1
            self._spill_free += parcel.size
            self._settle()

    def leave(self, parcels: list[inbox.Parcel]) -> None:
        """A link is over and these are what it left (`Inbox.close`): forget them.

        Values that were in hand stay the consumer's.
        """
        for parcel in parcels:
            self._leave(parcel)
            if parcel.spilling:
                parcel.spilling = False
                self._spilling -= 1
                self._spill_free += parcel.size
            elif parcel.token is not None:
                self._spill_free += parcel.size
            parcel.account = inbox.GONE
            if not parcel.taken:
                parcel.buffer = None
        kept = [
            one
            for one in self.events
            if one.parcel.account != inbox.GONE or not isinstance(one, events.Ready | events.Spill)
        ]
        self.events.clear()
        self.events.extend(kept)
        self._recount()
        self._after_release()

    @property
    def used_bytes(self) -> int:
        """Budget in use, windows not counted; at most the rest of the budget plus one value."""
        return self._used

    @property
    def spilled_bytes(self) -> int:
        """Disk in use or about to be."""
        return self.spill_bytes - self._spill_free

    @property
    def waiting_call(self) -> int | None:
        """Number of the lowest call that waits for a value; None if none does."""
        call = self._lowest()
        return None if call is None else call.number

    # What the inboxes say: see inbox.Keeper.

    def offered(self, parcel: inbox.Parcel) -> None:
        """A peer would send this. It is granted when there is room and nothing lower wants it."""
        if not self._enter(parcel):
            return
        for call in self._needs.get(parcel.key, ()):
            call.offers[id(parcel)] = parcel
        self._push(parcel)
        self._settle()

    def arriving(self, parcel: inbox.Parcel) -> None:
        """A peer sends this in its window. The budget takes it over as soon as there is room."""
        if not self._enter(parcel):
            return
        self._incomplete += 1
        if not self._heap and self._used + parcel.charge <= self._room - self._reserve:
            parcel.account = inbox.BUDGET
            self._used += parcel.charge
            parcel.inbox.extend(parcel.charge)
        else:
            self._push(parcel)
            self._settle()

    def arrived(self, parcel: inbox.Parcel) -> None:
        """All bytes of it are there."""
        self._incomplete -= 1
        calls = self._needs.get(parcel.key)
        if calls is not None:
            for call in calls:
                call.missing.discard(parcel.key)
            self._lowest()
            self.events.append(events.Ready(parcel=parcel))
        if self.spill_bytes and parcel.account != inbox.WINDOW:
            self._keep_spillable(parcel)
        if self._heap:
            self._settle()

    def withdrawn(self, parcel: inbox.Parcel) -> None:
        """The peer took the offer back; it may come again."""
        self._leave(parcel)

    def rejected(self, parcel: inbox.Parcel, reason: str) -> None:
        """A peer's value breaks a limit; it was refused."""
        self.events.append(events.Rejected(parcel=parcel, reason=reason))

    # How room is made.

    def _enter(self, parcel: inbox.Parcel) -> bool:
        key = parcel.key
        if key in self._by_key:
            account = parcel.account
            parcel.inbox.refuse(parcel, inbox.TWICE, f"object {key[1]}.{key[2]} was sent already")
            if account == inbox.WINDOW:
                parcel.inbox.extend(parcel.charge)
            return False
        self._by_key[key] = parcel
        return True

    def _push(self, parcel: inbox.Parcel) -> None:
        self._order += 1
        heapq.heappush(self._heap, (parcel.number, self._order, parcel))

    def _leave(self, parcel: inbox.Parcel) -> None:
        """Take the parcel out of all books but the budget's."""
        key = parcel.key
        if self._by_key.get(key) is not parcel:
            return
        del self._by_key[key]
        calls = self._needs.get(key)
        if calls is not None:
            for call in calls:
                call.offers.pop(id(parcel), None)
            if parcel.complete:
                del self._needs[key]
        if parcel.taken:
            self._taken -= 1
        if not parcel.complete and parcel.account != inbox.WAITING:
            self._incomplete -= 1

    def _free(self, parcel: inbox.Parcel, account: int) -> None:
        """Give back what the parcel, which is gone, had in `account`."""
        on_disk = parcel.token is not None
        if on_disk:
            self._spill_free += parcel.size
            parcel.token = None
        if account == inbox.WINDOW:
            parcel.inbox.extend(parcel.charge)
        elif account in (inbox.BUDGET, inbox.OVER):
            self._used -= outbox.MESSAGE_OVERHEAD if on_disk else parcel.charge
        self._after_release()

    def _recount(self) -> None:
        """The budget's use from what is left, after a link went."""
        self._used = 0
        for parcel in self._by_key.values():
            if parcel.account in (inbox.BUDGET, inbox.OVER):
                on_disk = parcel.token is not None
                self._used += outbox.MESSAGE_OVERHEAD if on_disk else parcel.charge

    def _after_release(self) -> None:
        if self._over is not None and self._used <= self._room:
            if self._over.account == inbox.OVER:
                self._over.account = inbox.BUDGET
            self._over = None
        if self._heap:
            self._settle()

    def _lowest(self) -> _Call | None:
        """The lowest call that has values missing."""
        numbers = self._numbers
        while numbers:
            call = self._calls.get(numbers[0])
            if call is not None and call.missing:
                return call
            if call is not None:
                # It has all it needs; should it need more, `need` makes it anew.
                del self._calls[numbers[0]]
            heapq.heappop(numbers)
        return None

    def _settle(self) -> None:
        """Grant what there is room for: the lowest waiting call's values, then the lowest number.

        Strictly in that order: nothing overtakes a lower number because it is smaller, or large
        values would starve.
        """
        heap = self._heap
        while True:
            call = self._lowest()
            if call is not None and call.offers:
                parcel = next(iter(call.offers.values()))
                if not self._admit(parcel, self._room) and not self._admit_over(parcel, call):
                    return
                continue
            while heap and heap[0][2].account not in (inbox.WAITING, inbox.WINDOW):
                heapq.heappop(heap)
            if not heap:
                return
            parcel = heap[0][2]
            if not self._admit(parcel, self._room - self._reserve):
                self._spill_above(parcel)
                return
            heapq.heappop(heap)

    def _admit(self, parcel: inbox.Parcel, room: int) -> bool:
        """Count the parcel in the budget, if it fits into `room`, and let it come."""
        if self._used + parcel.charge > room:
            return False
        self._grant(parcel, inbox.BUDGET)
        return True

    def _grant(self, parcel: inbox.Parcel, account: int) -> None:
        before, parcel.account = parcel.account, account
        self._used += parcel.charge
        for call in self._needs.get(parcel.key, ()):
            call.offers.pop(id(parcel), None)
        if before == inbox.WAITING:
            self._incomplete += 1
            parcel.inbox.grant(parcel)
        else:
            if parcel.complete and self.spill_bytes:
                self._keep_spillable(parcel)
            parcel.inbox.extend(parcel.charge)

    def _admit_over(self, parcel: inbox.Parcel, call: _Call) -> bool:
        """Serve the lowest waiting call beyond the budget: one value, or after a spill."""
        if self._over is None:
            self._over = parcel
            self._grant(parcel, inbox.OVER)
            return True
        if not self._spilling:
            self._spill(self._used - self._room, above=-1)
        if self._spilling or self._incomplete or self._taken or self._will_be_taken():
            return False
        if not call.overflowed:
            call.overflowed = True
            self.events.append(
                events.Overflow(
                    number=call.number,
                    parcel=parcel,
                    error=errors.TransportError(
                        party=parcel.party,
                        reason=f"call {call.number} needs more values at once than fit: the "
                        f"receive budget of {self.budget_bytes} bytes and the spill quota of "
                        f"{self.spill_bytes} bytes are full; raise one of them, or have the call "
                        "take its values in parts (fed.reduce)",
                    ),
                )
            )
        return False

    def _spill_above(self, parcel: inbox.Parcel) -> None:
        """Make room for an offer by writing out values that are read later than it."""
        if not self._spilling and self._spill_free:
            room = self._room - self._reserve
            self._spill(self._used + parcel.charge - room, above=parcel.number)

    def _spill(self, wanted: int, *, above: int) -> None:
        """Ask for `wanted` bytes of memory back, from values for calls above the number `above`.

        Highest call first, for it is read last. Values of calls that have all they need are left:
        they are about to be taken.
        """
        kept: list[tuple[int, int, inbox.Parcel]] = []
        chosen: list[tuple[int, int, inbox.Parcel]] = []
        free = self._spill_free
        spillable = self._spillable
        while wanted > 0 and spillable and -spillable[0][0] > above:
            entry = heapq.heappop(spillable)
            parcel = entry[2]
            gone = parcel.account == inbox.GONE or parcel.token is not None or parcel.taken
            if gone or parcel.spilling:
                continue
            if parcel.size > free or self._soon_taken(parcel):
                kept.append(entry)
                continue
            chosen.append(entry)
            free -= parcel.size
            wanted -= parcel.size
        if wanted > 0 and above >= 0:
            # It would not be enough: leave the disk alone.
            kept += chosen
            chosen = []
        for entry in kept:
            heapq.heappush(spillable, entry)
        for _, _, parcel in chosen:
            parcel.spilling = True
            self._spilling += 1
            self._spill_free -= parcel.size
            self.events.append(events.Spill(parcel=parcel))

    def _keep_spillable(self, parcel: inbox.Parcel) -> None:
        spillable = self._spillable
        if len(spillable) > 64 + 2 * len(self._by_key):
            # Most entries are of values long gone.
            spillable[:] = [entry for entry in spillable if entry[2].account != inbox.GONE]
            heapq.heapify(spillable)
        self._order += 1
        heapq.heappush(spillable, (-parcel.number, -self._order, parcel))

    def _soon_taken(self, parcel: inbox.Parcel) -> bool:
        calls = self._needs.get(parcel.key, ())
        return any(self._takes_singly or not call.missing for call in calls)

    def _will_be_taken(self) -> bool:
        """True if some value in memory is about to be taken by its call."""
        return any(
            parcel.complete and self._soon_taken(parcel)
            for key in self._needs
            if (parcel := self._by_key.get(key)) is not None
        )
