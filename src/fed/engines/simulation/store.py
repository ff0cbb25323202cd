"""Memory of large results: counted by call site, spilled to disk above a budget.

A spilled array is a read-only view of a memory-mapped file, so bodies and the script see no
difference; pickles are read out of such a file. The files have no name: nothing is left behind,
however the process ends.
"""

from __future__ import annotations

import logging
import mmap
import os
import sys
import tempfile
import weakref
from collections import OrderedDict
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from fed import errors
from fed.codec import seal
from fed.engines.simulation import results, sites

if TYPE_CHECKING:
    import numpy

log = logging.getLogger(__name__)

#: Smaller values are not counted: what is measured must cost far more than the measuring (1 us).
COUNTED_BYTES: Final = 32 * 1024

#: Smaller pickles, and parts of pickles, stay in memory: each part on disk takes some objects.
_SPILLED_PART_BYTES: Final = 4 * 1024

#: Values are put into files of this size, so that their number stays far below the kernel's limit
#: of 65,530 mappings a process.
SEGMENT_BYTES: Final = 256 * 1024 * 1024

#: Arrays start at multiples of this in a file: a cache line, and enough for any element type.
_ALIGNMENT: Final = 64


class Store:
    """Counts the large values that fed objects hold, and moves new ones to disk above the budget.

    Attributes:
        live_bytes: bytes of large values held in memory now.
    """

    def __init__(
        self, *, budget_bytes: int, folder: str | None = None, quota_bytes: int | None = None
    ) -> None:
        self.live_bytes = 0
        self._budget_bytes = budget_bytes
        self._spill = Spill(folder=folder, quota_bytes=quota_bytes)
        self._codes: dict[int, CodeType] = {}
        self._by_place: dict[sites.Place, int] = {}
        self._warned: set[sites.Place] = set()

    @property
    def spilled_bytes(self) -> int:
        """Bytes of values written to disk so far."""
        return self._spill.written_bytes

    def keep(self, form: Any) -> Any:
        """The sealed form as a fed object shall hold it: large ones in a `Held`.

        Raises:
            SpillError: if it would pass the budget and can't be written to disk either.
        """
        size: int = getattr(form, "nbytes", 0)
        if size < COUNTED_BYTES:
            return form
        place = sites.place(self._codes)
        if self.live_bytes + size > self._budget_bytes:
            self._warn(place, size)
            before = self._spill.written_bytes
            try:
                form = _mapped(form, self._spill)
            except OSError as error:
                raise errors.SpillError(
                    size_bytes=size,
                    reason=str(error),
                    site=sites.text(self._most(place), self._codes),
                ) from error
            size -= self._spill.written_bytes - before
        self.live_bytes += size
        self._by_place[place] = self._by_place.get(place, 0) + size
        return results.Held(form, size, place, self)

    def released(self, held: results.Held) -> None:
        """A held value's fed object is gone."""
        self.live_bytes -= held.size_bytes
        if held.size_bytes:
            self._by_place[held.place] -= held.size_bytes

    def _most(self, place: sites.Place) -> sites.Place:
        """The place whose results hold most of the memory, `place` if none holds any."""
        return max(self._by_place, key=self._by_place.__getitem__, default=place)

    def _warn(self, place: sites.Place, size_bytes: int) -> None:
        most = self._most(place)
        if most in self._warned:
            return
        self._warned.add(most)
        held_bytes = self._by_place.get(most, 0)
        held = f"results made at {sites.text(most, self._codes)} hold {_in_words(held_bytes)}"
        if not held_bytes:
            held = (
                f"a result made at {sites.text(place, self._codes)} takes {_in_words(size_bytes)}"
            )
        log.warning(
            "%s of the memory budget of %s; further large results go to disk. Fold them with "
            "fed.reduce and a generator, drop them earlier, or raise memory_budget_bytes",
            held,
            _in_words(self._budget_bytes),
        )


def _in_words(size_bytes: int) -> str:
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.2f} GiB"
    if size_bytes >= 2**20:
        return f"{size_bytes / 2**20:.1f} MiB"
    return f"{size_bytes / 2**10:.1f} KiB"


def _mapped(form: Any, spill: Spill) -> Any:
    """The sealed form with its arrays and large pickles on disk; the rest stays in memory."""
    kind = type(form)
    if kind is seal.Pickled:
        data, *buffers = [
            spill.memory(part) if len(part) >= _SPILLED_PART_BYTES else part
            for part in (form.data, *form.buffers)
        ]
        return seal.Pickled(data, buffers, form.kind, form.path)
    if kind is seal.Tree:
        value = _mapped(form.value, spill)
        return seal.Tree(value, flat=form.flat, plain=form.plain, nbytes=form.nbytes)
    if kind is list or kind is tuple:
        return kind([_mapped(item, spill) for item in form])
    if kind is dict or kind is OrderedDict:
        return kind((key, _mapped(item, spill)) for key, item in form.items())
    np = sys.modules.get("numpy")
    if np is not None and kind is np.ndarray and form.nbytes:
        return spill.written(form)
    return form


class _Segment:
    """One nameless file: values are appended, and its room is free again when all are gone."""

    def __init__(self, folder: str | None, size_bytes: int) -> None:
        self.file = tempfile.TemporaryFile(dir=folder, prefix="fed-spill-")  # noqa: SIM115
        os.ftruncate(self.file.fileno(), size_bytes)
        self.map = mmap.mmap(self.file.fileno(), size_bytes, access=mmap.ACCESS_READ)
        self.size_bytes = size_bytes
        self.end = 0
        self.values = 0

    def room(self) -> int:
        if not self.values:
            self.end = 0
        return self.size_bytes - self.end


class Spill:
    """Memory in nameless files; a file goes when the last view of the last value in it dies.

    Attributes:
        written_bytes: bytes of values written so far.
    """

    def __init__(self, *, folder: str | None, quota_bytes: int | None) -> None:
        self.written_bytes = 0
        self._folder = folder
        self._quota_bytes = quota_bytes
        self._open: _Segment | None = None
        self._files_bytes = 0

    def written(self, array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        """A read-only array equal to `array` (dtype, shape, order), whose memory is a file.

        Raises:
            OSError: if the disk or the quota is full.
        """
        import numpy as np

        order: Any = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        marked = self.memory(np.ravel(array, order=order).view(np.uint8).data)
        spilled: numpy.ndarray[Any, Any] = np.frombuffer(marked, dtype=array.dtype)
        return spilled.reshape(array.shape, order=order)

    def memory(self, data: bytes | memoryview) -> memoryview:
        """Read-only memory in a file with the same bytes, at least one; arrays on it are frozen.

        Raises:
            OSError: if the disk or the quota is full.
        """
        import numpy as np

        from fed.codec import arrays

        flat = memoryview(data)
        segment = self._segment(flat.nbytes)
        start = segment.end
        done = 0
        while done < flat.nbytes:
            done += os.pwrite(segment.file.fileno(), flat[done:], start + done)
        segment.end = -(-(start + flat.nbytes) // _ALIGNMENT) * _ALIGNMENT
        segment.values += 1
        self.written_bytes += flat.nbytes
        # An array of its own, which every view of the value keeps alive. A slice of a memoryview
        # would not do: who takes a buffer from it refers to the map alone.
        region = np.frombuffer(segment.map, np.uint8, flat.nbytes, start)
        weakref.finalize(region, self._released, segment).atexit = False
        return arrays.marked(region.data)

    def _segment(self, size_bytes: int) -> _Segment:
        segment = self._open
        if segment is None or segment.room() < size_bytes:
            wanted = max(size_bytes, SEGMENT_BYTES)
            if self._quota_bytes is not None and self._files_bytes + wanted > self._quota_bytes:
                wanted = max(size_bytes, self._quota_bytes - self._files_bytes)
                if self._files_bytes + wanted > self._quota_bytes:
                    raise OSError(f"the spill quota of {_in_words(self._quota_bytes)} is used up")
            segment = self._open = _Segment(self._folder, wanted)
            self._files_bytes += wanted
            weakref.finalize(segment, self._forget, wanted).atexit = False
        return segment

    def _released(self, segment: _Segment) -> None:
        segment.values -= 1

    def _forget(self, size_bytes: int) -> None:
        self._files_bytes -= size_bytes
