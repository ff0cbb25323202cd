"""Memory for the bodies of values that arrive, used again when nothing refers to it any more.

Memory that was never touched costs more than anything else here: 0.4 GB/s the first time against
10 GB/s afterwards, and numpy's allocation gets huge pages where a bytearray does not (measured).
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy

#: Smaller buffers are cheaper made than looked for.
POOLED_BYTES: Final = 64 << 10
#: A buffer serves for bodies down to its size less one part in so many: what is too much of it is
#: memory that no budget counts.
_SLACK: Final = 8


class Pool:
    """Buffers of received bodies; any thread may call any method.

    A buffer comes back by itself when the last view of it dies: of the memoryview given out, and of
    all arrays and views made of it.

    Args:
        keep_bytes: free buffers are kept up to that many bytes in all.
        keep_s: and are let go when they were not used for that long.
        clock: seconds that never go back.
    """

    def __init__(
        self, *, keep_bytes: int, clock: Callable[[], float], keep_s: float = 30.0
    ) -> None:
        self._keep_bytes = keep_bytes
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._free: list[tuple[float, numpy.ndarray[Any, Any]]] = []  # longest unused first
        # Views die in any thread at any moment, also inside `get`: they only add to this.
        self._back: deque[numpy.ndarray[Any, Any]] = deque()
        self._out: dict[int, weakref.ref[Any]] = {}

    def get(self, size_bytes: int) -> memoryview:
        """A flat writable buffer of exactly that many bytes; what is in it is left from before.

        Raises:
            MemoryError: if there is no memory.
        """
        if size_bytes < POOLED_BYTES:
            return memoryview(bytearray(size_bytes))
        import numpy as np

        with self._lock:
            self._sort()
            base = self._taken(size_bytes)
            if base is None:
                self._trim(self._keep_bytes - min(size_bytes, self._keep_bytes))
        if base is None:
            base = np.empty(size_bytes, np.uint8)
        # An array of its own, which every view of the body keeps alive.
        body = base[:size_bytes]
        key = id(body)

        def died(_: object, key: int = key, base: numpy.ndarray[Any, Any] = base) -> None:
            self._out.pop(key, None)
            self._back.append(base)

        self._out[key] = weakref.ref(body, died)
        return memoryview(body.data)

    def trim(self) -> None:
        """Let go of buffers that nobody used lately, and of what is above the limit."""
        with self._lock:
            self._sort()
            old = self._clock() - self._keep_s
            while self._free and self._free[0][0] <= old:
                del self._free[0]

    @property
    def free_bytes(self) -> int:
        """Bytes of the buffers that wait to be used again."""
        with self._lock:
            self._sort()
            return sum(base.nbytes for _, base in self._free)

    def _sort(self) -> None:
        """Put what came back among the free ones."""
        if not self._back:
            return
        now = self._clock()
        while self._back:
            self._free.append((now, self._back.popleft()))
        self._trim(self._keep_bytes)

    def _taken(self, size_bytes: int) -> numpy.ndarray[Any, Any] | None:
        """The smallest free buffer that fits, if it is not much too large."""
        best = -1
        most = size_bytes + size_bytes // _SLACK
        for at, (_, base) in enumerate(self._free):
            if size_bytes <= base.nbytes <= most:
                best, most = at, base.nbytes
        return self._free.pop(best)[1] if best >= 0 else None

    def _trim(self, limit: int) -> None:
        total = sum(base.nbytes for _, base in self._free)
        while self._free and total > limit:
            total -= self._free.pop(0)[1].nbytes
