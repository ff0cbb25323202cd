"""Who waits for which value, what of it is here, and who gets it.

Pure: guarded by the lock of the endpoint, which moves the bytes, decodes and calls back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from fed import errors
from fed.transport import events, inbox, mailbox, requests


class Arrivals:
    """Stands between the mailbox and the requests.

    A value passes in three steps: `sorted_events` gives its parcel once somebody may take it; the
    owner decodes it, without the lock; `hand_over` or `turn_back` says what came of that.

    Args:
        box: the mailbox.
        digest_at: this program's digest at a call number.
        settled: takes requests that have all their values, or never will.
        refused: takes values that never come in, as (party, call that made it, why).
        to_spill: takes parcels that are to be written to disk.
    """

    def __init__(
        self,
        box: mailbox.Mailbox,
        *,
        digest_at: Callable[[int], bytes],
        settled: Callable[[requests.Request], None],
        refused: Callable[[tuple[str, int, errors.FedError]], None],
        to_spill: Callable[[inbox.Parcel], None],
    ) -> None:
        self._box = box
        self._digest_at = digest_at
        self._settled = settled
        self._tell_refused = refused
        self._to_spill = to_spill
        self._waiting: dict[mailbox.Key, list[requests.Request]] = {}
        self._ready: dict[mailbox.Key, inbox.Parcel] = {}
        self._kept: dict[mailbox.Key, object] = {}  # decoded, but nobody waits any more
        self._refused: dict[mailbox.Key, errors.FedError] = {}
        self._ended: dict[str, errors.FedError] = {}  # by party: nothing of it will come

    def expect(self, request: requests.Request) -> list[inbox.Parcel]:
        """Have the request wait for its values; gives those to be decoded now."""
        error = self._why_never(request)
        if error is not None:
            request.error = error
            self._settled(request)
            return []
        for key in set(request.keys) & self._kept.keys():
            request.values[key] = self._kept.pop(key)
            request.waiting.discard(key)
        if request.has_all:
            self._settled(request)
            return []
        needed = sorted(request.waiting)
        for key in needed:
            self._waiting.setdefault(key, []).append(request)
        request.waiting -= self._ready.keys()
        self._box.need(request.number, *needed)
        found = self.sorted_events()
        if not request.waiting:
            found += self._taken(request)
        return found

    def forget(self, request: requests.Request) -> None:
        """Nobody waits for it any more; its values stay, for whoever comes for them."""
        self._leave(request)
        self._kept.update(request.values)

    def sorted_events(self) -> list[inbox.Parcel]:
        """Act on what the mailbox says; gives the values that are to be decoded now."""
        found: list[inbox.Parcel] = []
        happened = self._box.events
        while happened:
            event = happened.popleft()
            parcel = event.parcel
            key = parcel.key
            if isinstance(event, events.Ready):
                self._ready[key] = parcel
                for request in self._waiting.get(key, ()):
                    request.waiting.discard(key)
                    if not request.waiting:
                        found += self._taken(request)
            elif isinstance(event, events.Spill):
                self._to_spill(parcel)
            elif isinstance(event, events.Overflow):
                self.turn_back(parcel, inbox.NO_ROOM, event.error)
            else:
                error = errors.ValueRefusedError(
                    path="value", type_name="received value", reason=event.reason,
                    party=parcel.party, call=parcel.call,
                )  # fmt: skip
                self._refuse(key, error)
        return found

    def hand_over(self, parcel: inbox.Parcel, value: object) -> None:
        """The value is its requests' now, and the peer is told."""
        key = parcel.key
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            # Whoever waited gave up in this very moment; another call may come for it.
            self._kept[key] = value
        else:
            for request in waiting:
                request.values[key] = value
                if request.has_all:
                    self._settled(request)
        self._box.handed_over(parcel)

    def turn_back(self, parcel: inbox.Parcel, code: int, error: errors.FedError) -> None:
        """Who waits for the value gets the error, and the peer its words."""
        if parcel.account != inbox.GONE:
            reason = error.reason if isinstance(error, errors.TransportError) else str(error)
            self._box.refuse(parcel, code, reason)
        self._refuse(parcel.key, error)

    def end(self, party: str, error: errors.FedError) -> None:
        """Nothing of that party will come any more: who waits for it gets the error."""
        self._ended.setdefault(party, error)
        for key in [key for key in self._ready if key[0] == party]:
            del self._ready[key]
        for request in self._requests():
            for key in request.keys:
                if key[0] == party and key not in request.values:
                    self._fail(request, _waiting_for(error, key))
                    break

    def close(self, error: errors.FedError) -> None:
        """Nobody is to wait any more."""
        for request in self._requests():
            self._fail(request, copy.copy(error))

    def _taken(self, request: requests.Request) -> list[inbox.Parcel]:
        """All values of a request that has all, taken from the mailbox."""
        found = []
        for key in request.keys:
            parcel = self._ready.pop(key, None)
            if parcel is None or parcel.taken:
                continue  # another thread decodes it now, for all who wait for it
            try:
                self._box.take(parcel, digest=self._digest_at(parcel.number))
            except errors.FedError as error:
                self._refuse(key, error)
                continue
            found.append(parcel)
        return found

    def _why_never(self, request: requests.Request) -> errors.FedError | None:
        for key in request.keys:
            if key in self._refused:
                return copy.copy(self._refused[key])
            if key[0] in self._ended and key not in self._kept:
                return _waiting_for(self._ended[key[0]], key)
        return None

    def _requests(self) -> list[requests.Request]:
        found = {id(one): one for waiting in self._waiting.values() for one in waiting}
        return list(found.values())

    def _refuse(self, key: mailbox.Key, error: errors.FedError) -> None:
        """The value never comes in: who waits for it, now or later, hears why."""
        self._refused[key] = error
        self._tell_refused((key[0], key[1], error))
        for request in list(self._waiting.get(key, ())):
            self._fail(request, copy.copy(error))

    def _fail(self, request: requests.Request, error: errors.FedError) -> None:
        self._leave(request)
        request.error = error
        self._settled(request)

    def _leave(self, request: requests.Request) -> None:
        for key in set(request.keys):
            waiting = self._waiting.get(key)
            if waiting is not None and request in waiting:
                waiting.remove(request)
                if not waiting:
                    del self._waiting[key]
        self._box.forget(request.number)


def _waiting_for(error: errors.FedError, key: mailbox.Key) -> errors.FedError:
    """The error of a link, as who waits for that object gets it."""
    told = copy.copy(error)
    if isinstance(told, errors.PartyLostError):
        told.waiting_for = f"the value of call {key[1]}"
    return told
