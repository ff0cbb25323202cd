"""What crosses between parties: checked against the type table, counted, and digested."""

from __future__ import annotations

import traceback
from typing import Any, Final

from fed import errors
from fed.codec import seal, types
from fed.engines.simulation import results
from fed.model import calls


#: A float encoded: a tag and eight bytes (docs/wire-format.md).
_FLOAT_BYTES: Final = 9


class Traffic:
    """Values that crossed between parties, each counted once per (object, receiving party).

    Attributes:
        values: how many.
        size_bytes: their encoded sizes added up, as a real transport would carry them.
    """

    __slots__ = ("size_bytes", "values")

    def __init__(self) -> None:
        self.values = 0
        self.size_bytes = 0


def encoded_bytes(value: Any) -> int:
    """Bytes that a value takes encoded."""
    if type(value) is float:
        return _FLOAT_BYTES
    from fed.codec import wire

    return wire.size(value)


class ValuesDigest:
    """A digest over the values that `get` gave, whatever the order in which they were got."""

    def __init__(self, user_types: types.UserTypes) -> None:
        self._types = user_types
        self._sum = 0
        self.values = 0

    def add(self, value: Any) -> None:
        """Take in one value."""
        from fed.codec import wire

        digest = wire.digest(value, types=self._types)
        self._sum = (self._sum + int.from_bytes(digest, "big")) % (1 << 256)
        self.values += 1

    def hex(self) -> str:
        """64 digits: the SHA-256 digests of the encoded values, added modulo 2**256."""
        return f"{self._sum:064x}"


class Crossing:
    """Reads fed objects for a party: each reader gets its own value."""

    def __init__(
        self,
        user_types: types.UserTypes,
        traffic: Traffic,
        *,
        checks: bool,
        max_value_bytes: int | None = None,
    ) -> None:
        self._types = user_types
        self._traffic = traffic
        self._checks = checks
        self._max_value_bytes = max_value_bytes

    def read(self, obj: Any, party: str) -> Any:
        """The value of `obj` for a call of `party`.

        Raises:
            ValueRefusedError: if it would have to cross and may not.
        """
        form = obj.value
        if type(form) is results.Held:
            form = form.form
        if not self._checks:
            return form
        if obj.party == party:
            return seal.opened(form)
        value = self._crossed(obj, form)
        if obj.sent is None:
            obj.sent = party
            self._traffic.values += 1
            self._traffic.size_bytes += encoded_bytes(value)
        elif obj.sent != party:
            self.again(obj, party, value)
        return value

    def again(self, obj: Any, party: str, value: Any) -> None:
        """Count a value that crossed to some party before, if this one is new."""
        to = obj.sent
        if type(to) is str:
            if to == party:
                return
            form = obj.value.form if type(obj.value) is results.Held else obj.value
            shared = form if form is value else calls.NOTHING
            to = obj.sent = results.Sent(to, encoded_bytes(value), shared)
        if party not in to.parties:
            to.parties.add(party)
            self._traffic.values += 1
            self._traffic.size_bytes += to.size_bytes

    def handed_out(self, obj: Any) -> Any:
        """The value of `obj` for the script; its arrays are known to be frozen when passed on."""
        form = obj.value
        if type(form) is results.Held:
            form = form.form
        if not self._checks:
            return form
        value = self._crossed(obj, form)
        if type(value) is seal.array_type():
            from fed.codec import arrays

            return arrays.freeze(value)
        return value

    def _crossed(self, obj: Any, form: Any) -> Any:
        kind = type(form)
        if kind in seal.ATOMS:
            return form
        limit = self._max_value_bytes
        size: int = getattr(form, "nbytes", 0)
        if limit is not None and size > limit:
            raise errors.ValueRefusedError(
                path="result",
                type_name=types.type_name(type(getattr(form, "value", form))),
                reason=f"it has {size:,} bytes, more than may cross",
                limit=f"max_value_bytes = {limit:,}",
                party=obj.party,
                call=obj.number,
            )
        if kind is seal.Tree and form.plain:
            return seal.opened(form)
        if kind is seal.array_type():
            return self._array(obj, form)
        return types.cross(
            seal.opened(form), types=self._types, party=obj.party, call=obj.number
        )

    def _array(self, obj: Any, array: Any) -> Any:
        # Sealed arrays are read-only for good, so those that look the same after encoding and
        # decoding pass by reference; `types.cross` would copy them to be sure of that.
        if seal.is_plain(array):
            return array
        return types.cross(array, types=self._types, party=obj.party, call=obj.number)


def remote_error(
    error: BaseException,
    *,
    level: str,
    party: str,
    call: int,
    name: str,
    actor: int | None,
    site: str,
) -> errors.FedRemoteError:
    """The error that stands for what a body raised; the original is chained as its cause."""
    detail = ""
    if level == "message":
        detail = str(error)
    elif level == "traceback":
        detail = "".join(traceback.format_exception(error))
    made = errors.FedRemoteError(
        party=party,
        call=call,
        name=name,
        actor=actor,
        site=site,
        type_name=type(error).__name__,
        detail=detail,
        level=level,
    )
    made.__cause__ = error
    return made
