"""A value as bytes, and back: what `docs/wire-format.md` describes byte for byte.

An encoded value is a *header* (fixed part, then a msgpack tree) and a *body* of out-of-band
buffers, aligned so that arrays are used where they lie. Decoding runs and imports nothing, checks
every length before it allocates, and gives exactly what `types.cross` gives without the bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Sequence

import msgspec

from fed import errors
from fed.codec import reader, tags, types, writer

Limits = tags.Limits

#: Limits that no honest value meets, where nothing is received: sizes and digests.
_NO_LIMITS = Limits(
    total_bytes=1 << 62, header_bytes=1 << 62, depth=types.DEPTH_LIMIT, items=1 << 62,
    buffers=1 << 32,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A value ready to be sent. Buffers alias the value's arrays: it must not change meanwhile.

    Attributes:
        header: fixed part and tree.
        buffers: the out-of-band data in order, each contiguous and not empty.
    """

    header: bytes
    buffers: list[memoryview]

    @property
    def body_bytes(self) -> int:
        """The length of the body: the buffers and the padding between them."""
        return tags.body_bytes([buffer.nbytes for buffer in self.buffers])

    @property
    def size_bytes(self) -> int:
        """The length of header and body."""
        return len(self.header) + self.body_bytes

    def body(self) -> Iterator[bytes | memoryview]:
        """The body's pieces in order, padding among them; together `body_bytes` long."""
        for n, buffer in enumerate(self.buffers):
            yield buffer
            missing = tags.padded(buffer.nbytes) - buffer.nbytes
            if missing and n + 1 < len(self.buffers):
                yield bytes(missing)


def encode(
    value: object,
    *,
    types: types.UserTypes,
    limits: Limits | None = None,
    root: str = "result",
    party: str | None = None,
    call: int | None = None,
) -> Encoded:
    """The value's header and buffers. Contiguous arrays and long bytes aren't copied.

    Args:
        value: anything.
        types: the user's classes that may cross.
        limits: what it may take; the receiver has limits of its own.
        root: what the path in an error starts with.
        party: the owner, for the error.
        call: number of the call that made the value, for the error.

    Raises:
        ValueRefusedError: with the path of the first part that may not cross, or the limit that
            the whole value breaks.
    """
    limits = limits or Limits()
    tree, done = _written(value, types, limits, False, root=root, party=party, call=call)
    made = Encoded(header=tags.prefix(done.lengths) + tree, buffers=done.buffers)
    problem = _over(len(made.header), done.lengths, limits)
    if problem is not None:
        raise _too_large(value, problem, root=root, party=party, call=call)
    return made


def _too_large(
    value: object, problem: tuple[str, str], *, root: str, party: str | None, call: int | None
) -> errors.ValueRefusedError:
    return errors.ValueRefusedError(
        path=root,
        type_name=_types.type_name(type(value)),
        reason=problem[0],
        limit=problem[1],
        party=party,
        call=call,
    )


def decode(
    header: bytes | bytearray | memoryview,
    body: bytes | bytearray | memoryview | Sequence[bytes | bytearray | memoryview],
    *,
    types: types.UserTypes,
    limits: Limits | None = None,
    root: str = "value",
    party: str | None = None,
) -> object:
    """The value of a header and its body, or its buffers one by one.

    Arrays of the value lie in the given memory, without a copy, and are read-only; the memory is
    theirs from then on and nobody may write to it. It is let go when the last of them dies.

    Raises:
        ValueRefusedError: if the bytes are malformed, over a limit, or name what may not cross,
            whatever they are. Nothing else is raised, nothing is run and nothing imported.
    """
    try:
        return _read(header, body, types, limits or Limits())
    except errors.ValueRefusedError as error:
        refused = error.with_traceback(None)
    except _BROKEN as error:
        reason = f"it can't be read: {str(error)[:200] or type(error).__name__}"
        refused = errors.ValueRefusedError(path=root, type_name="received value", reason=reason)
    # Raised out here and without the frames that read: a refusal may be kept for long, and
    # would keep the received memory with it.
    del header, body
    refused.path = root
    refused.party = party
    refused.__context__ = refused.__cause__ = None
    raise refused


def _read(
    header: bytes | bytearray | memoryview,
    body: bytes | bytearray | memoryview | Sequence[bytes | bytearray | memoryview],
    user: types.UserTypes,
    limits: Limits,
) -> object:
    lengths, tree = _checked(header, limits)
    exact = None if tree.nbytes <= limits.items else limits.items
    done = reader.Reader(user, limits, _buffers(body, lengths), exact)
    return done.value(bytes(tree))


def body_bytes(header: bytes | bytearray | memoryview, *, limits: Limits | None = None) -> int:
    """The length of the body that belongs to a header; nothing of the tree is read.

    Raises:
        ValueRefusedError: if the header's fixed part is malformed or names more than the limits.
    """
    try:
        lengths, _ = _checked(header, limits or Limits())
    except ValueError as error:
        raise errors.ValueRefusedError(
            path="value", type_name="received value", reason=f"it can't be read: {error}"
        ) from error
    return tags.body_bytes(lengths)


def digest(value: object, *, types: types.UserTypes) -> bytes:
    """SHA-256 over the value's header and buffers: 32 bytes, equal for equal values anywhere.

    Raises:
        ValueRefusedError: if the value may not cross.
    """
    tree, done = _written(value, types, _NO_LIMITS, False, root="value")
    sha = hashlib.sha256(tags.prefix(done.lengths))
    sha.update(tree)
    for buffer in done.buffers:
        sha.update(buffer)
    return sha.digest()


def size(
    value: object,
    *,
    types: types.UserTypes | None = None,
    limits: Limits | None = None,
    root: str = "result",
    party: str | None = None,
    call: int | None = None,
) -> int:
    """How many bytes header and body of the value take; arrays aren't touched.

    Args:
        value: a value that may cross.
        types: the user's classes; by default any class passes under its own name, for values
            that `types.cross` let through before.
        limits: what it may take, as for `encode`; none by default.
        root: what the path in an error starts with.
        party: the owner, for the error.
        call: number of the call that made the value, for the error.

    Raises:
        ValueRefusedError: if `encode` would refuse the value under these limits.
    """
    bounds = limits or _NO_LIMITS
    tree, done = _written(value, types or _ANY, bounds, True, root=root, party=party, call=call)
    header_bytes = len(tags.prefix(done.lengths)) + len(tree)
    problem = _over(header_bytes, done.lengths, bounds) if limits is not None else None
    if problem is not None:
        raise _too_large(value, problem, root=root, party=party, call=call)
    return header_bytes + tags.body_bytes(done.lengths)


def _written(
    value: object,
    user: types.UserTypes,
    limits: Limits,
    measure: bool,
    *,
    root: str,
    party: str | None = None,
    call: int | None = None,
) -> tuple[bytes, writer.Writer]:
    """The tree, and the writer that has the buffers.

    Ints beyond 64 bits, lone surrogates and trees over 8 MiB are rare, and looking for them
    slow: the value is written without, and again with care if the C encoder stumbles over one.
    """
    try:
        done = writer.Writer(user, limits, measure=measure)
        try:
            tree = done.tree(value)
        except (OverflowError, UnicodeEncodeError):
            done = writer.Writer(user, limits, measure=measure, careful=True)
            tree = done.tree(value)
        if len(tree) > tags.LARGE_TREE_BYTES:
            done = writer.Writer(user, limits, measure=measure, careful=True, large=True)
            tree = done.tree(value)
    except errors.ValueRefusedError as error:
        raise _types.located(error, value, types=user, root=root, party=party, call=call) from None
    return tree, done


def _over(header_bytes: int, lengths: Sequence[int], limits: Limits) -> tuple[str, str] | None:
    """What limit is broken: the reason and the limit in words."""
    if len(lengths) > limits.buffers:
        return f"it has {len(lengths)} buffers", f"{limits.buffers} buffers"
    if header_bytes > limits.header_bytes:
        return (
            f"without the data of arrays it takes {header_bytes} bytes; send many numbers as an "
            "array",
            f"{limits.header_bytes} bytes",
        )
    total = header_bytes + tags.body_bytes(lengths)
    if total > limits.total_bytes:
        return f"it takes {total:,} bytes", f"max_value_bytes = {limits.total_bytes:,}"
    return None


def _checked(
    header: bytes | bytearray | memoryview, limits: Limits
) -> tuple[tuple[int, ...], memoryview]:
    size_bytes = len(header)
    if size_bytes > limits.header_bytes:
        raise ValueError(f"its header has {size_bytes} bytes, over {limits.header_bytes}")
    lengths, tree = tags.split(header, limits)
    problem = _over(size_bytes, lengths, limits)
    if problem is not None:
        raise ValueError(f"{problem[0]} (limit: {problem[1]})")
    return lengths, tree


def _buffers(
    body: bytes | bytearray | memoryview | Sequence[bytes | bytearray | memoryview],
    lengths: Sequence[int],
) -> Iterator[memoryview]:
    if isinstance(body, (bytes, bytearray, memoryview)):
        whole = memoryview(body).cast("B")
        expected = tags.body_bytes(lengths)
        if whole.nbytes != expected:
            raise ValueError(f"its body has {whole.nbytes} bytes where {expected} belong")
        return _sliced(_marked(whole), lengths)
    parts = [memoryview(part).cast("B") for part in body]
    if [part.nbytes for part in parts] != list(lengths):
        raise ValueError("its buffers haven't the lengths that the header names")
    return iter([_marked(part) for part in parts])


def _sliced(whole: memoryview, lengths: Sequence[int]) -> Iterator[memoryview]:
    start = 0
    for length in lengths:
        yield whole[start : start + length]
        start += tags.padded(length)


def _marked(memory: memoryview) -> memoryview:
    """The memory, read-only; if the program has numpy, known to it as never written again."""
    if not memory.nbytes or "numpy" not in sys.modules:
        return memory.toreadonly()
    from fed.codec import arrays

    return arrays.marked(memory)


class _Anything(types.UserTypes):
    """Lets every class of a loaded module pass, for measuring what was checked before."""

    def _is_allowed(self, name: str, module: object) -> bool:
        return True


_types = types
_ANY = _Anything(None, None)

#: What reading broken bytes can raise here and in the libraries below.
_BROKEN = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, MemoryError,
           msgspec.MsgspecError)  # fmt: skip
