"""A network in memory between two links: slow, cut, repeating, and in any order across connections.

Stands where TLS and sockets do. Bytes of one connection stay in order, as TCP gives them; which
connection moves next, how far, and what happens to it is for the test to say, by hand or through
a seeded `random.Random`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from fed.transport import frames, link

#: Frames that a careless sender or a resumed connection may repeat without harm.
REPEATABLE = (
    frames.PING, frames.META, frames.CHUNK, frames.GRANT, frames.CREDIT, frames.ACK,
    frames.REFUSE, frames.NOTE,
)  # fmt: skip


class Lane:
    """One direction of one connection.

    Attributes:
        source: the connection whose output it carries.
        target: the connection that reads it.
        flight: bytes on the way.
        has_ended: nothing more will come; the target sees the end after `flight`.
    """

    def __init__(self, source: link.Connection, target: link.Connection) -> None:
        self.source = source
        self.target = target
        self.flight = bytearray()
        self.has_ended = False
        self._frames = bytearray()

    def load(self, limit: int, repeat: Callable[[int], bool] | None = None) -> int:
        """Take what the source has to send, some `limit` bytes; gives how many.

        `repeat` says of a frame's type whether that frame goes out twice.
        """
        if self.has_ended:
            return 0
        data = b"".join(self.source.output(limit))
        if repeat is None:
            self.flight += data
            return len(data)
        waiting = self._frames
        waiting += data
        while len(waiting) >= frames.HEADER_SIZE:
            kind, _, _, _, length, *_ = frames.HEADER.unpack_from(waiting)
            size = frames.HEADER_SIZE + length
            if len(waiting) < size:
                break
            twice = kind in REPEATABLE and repeat(kind)
            self.flight += bytes(waiting[:size]) * (2 if twice else 1)
            del waiting[:size]
        return len(data)

    def deliver(self, count: int, now: float) -> int:
        """Bring at most `count` bytes to the target; gives how many."""
        count = done = min(count, len(self.flight))
        start = 0
        while count:
            view = self.target.buffer()
            step = min(len(view), count)
            view[:step] = self.flight[start : start + step]
            self.target.received(step, now)
            start += step
            count -= step
        del self.flight[:start]
        return done


class Pipe:
    """One connection between two links, of either channel."""

    def __init__(self, dialler: link.Connection, listener: link.Connection) -> None:
        self.lanes = (Lane(dialler, listener), Lane(listener, dialler))

    def cut(self, keep: Callable[[int], int]) -> None:
        """End it in the middle: of the bytes on the way, `keep(count)` still arrive per lane."""
        for lane in self.lanes:
            del lane.flight[keep(len(lane.flight)) :]
            lane.has_ended = True


class Wire:
    """Everything between the links of two parties.

    Args:
        first: one party's link.
        second: the other's.
        now: gives the time.
        rng: decides for `step`; None where only `settle` is used.
        capacity: bytes that a lane holds, as a socket's buffers do.
        repeat_rate: how often a repeatable frame goes out twice.
    """

    def __init__(
        self,
        first: link.Link,
        second: link.Link,
        *,
        now: Callable[[], float],
        rng: random.Random | None = None,
        capacity: int = 1 << 20,
        repeat_rate: float = 0.0,
    ) -> None:
        self.links = (first, second)
        self.pipes: list[Pipe] = []
        self.cuts = 0
        self.is_broken = False
        self._now = now
        self._rng = rng
        self._capacity = capacity
        self._repeat_rate = repeat_rate

    def dial(self, side: int) -> bool:
        """Let one side dial what it wants to; False if it does not, or the network is broken."""
        mine, other = self.links[side], self.links[1 - side]
        channel = mine.wants_dial
        if not channel:
            return False
        if self.is_broken or other.is_over:
            mine.dial_failed("connection refused", self._now())
            return False
        now = self._now()
        self.pipes.append(Pipe(mine.opened(channel, now), other.accepted(now)))
        return True

    def load(self, lane: Lane, limit: int) -> int:
        """Move the lane's output into flight while there is room for it."""
        if len(lane.flight) >= self._capacity:
            return 0
        rng, rate = self._rng, self._repeat_rate
        if rng is None or not rate:
            return lane.load(limit)
        return lane.load(limit, lambda _: rng.random() < rate)

    def close_ended(self) -> bool:
        """Do what a carrier does at the end of a connection; True if anything changed."""
        changed = False
        now = self._now()
        for pipe in list(self.pipes):
            for lane in pipe.lanes:
                if not lane.has_ended and lane.source.closing and not lane.source.has_output:
                    lane.has_ended = changed = True
                    reason = lane.source.closing
                    lane.source.lost(reason, now)
            there, back = pipe.lanes
            for lane, other in ((there, back), (back, there)):
                if lane.has_ended and not lane.flight and not other.has_ended:
                    lane.target.lost("closed by the peer", now)
                    other.has_ended = changed = True
            if there.has_ended and back.has_ended and not there.flight and not back.flight:
                for lane in pipe.lanes:
                    lane.target.lost("connection reset", now)
                self.pipes.remove(pipe)
                changed = True
        return changed

    def cut(self, pipe: Pipe | None = None) -> None:
        """Cut one connection, or all; bytes on the way are lost in part."""
        rng = self._rng
        for one in [pipe] if pipe is not None else list(self.pipes):
            one.cut(lambda count: rng.randint(0, count) if rng is not None else 0)
            self.cuts += 1

    def step(self) -> None:
        """One small random move: dial, send, deliver or close something."""
        rng = self._rng
        if rng is None:
            raise ValueError("a wire without rng has no random steps")
        self.close_ended()
        if rng.random() < 0.2 or not self.pipes:
            self.dial(rng.randint(0, 1))
            return
        lane = rng.choice(rng.choice(self.pipes).lanes)
        if rng.random() < 0.5:
            self.load(lane, rng.choice((1, 1000, 100_000)))
        else:
            lane.deliver(rng.choice((1, 31, 500, 20_000, 1 << 20)), self._now())

    def settle(self, *, rounds: int = 5000) -> None:
        """Move everything until nothing moves any more."""
        for _ in range(rounds):
            moved = self.close_ended()
            for side in (0, 1):
                moved |= self.dial(side)
            for pipe in list(self.pipes):
                for lane in pipe.lanes:
                    moved |= bool(self.load(lane, 1 << 18))
                    moved |= bool(lane.deliver(len(lane.flight), self._now()))
            if not moved:
                return
        raise RuntimeError(f"the wire still moves after {rounds} rounds")
