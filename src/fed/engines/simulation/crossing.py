"""What crosses between parties: checked against the type table, counted, and digested."""

from __future__ import annotations

import traceback
from collections import OrderedDict
from typing import Any

from fed import errors
from fed.codec import seal, types
from fed.engines.simulation import results, traffic
from fed.model import calls


class ValuesDigest:
    """A digest over the values that `get` gave, whatever the order in which they were got."""

    def __init__(self, user_types: types.UserTypes) -> None:
        self._types = user_types
        self._sum = 0

    def add(self, value: Any) -> None:
        """Take in one value."""
        from fed.codec import wire

        digest = wire.digest(value, types=self._types)
        self._sum = (self._sum + int.from_bytes(digest, "big")) % (1 << 256)

    def hex(self) -> str:
        """64 digits: the SHA-256 digests of the encoded values, added modulo 2**256."""
        return f"{self._sum:064x}"


class Crossing:
    """Reads fed objects for a party: each reader gets its own value."""

    def __init__(
        self,
        user_types: types.UserTypes,
        counted: traffic.Traffic,
        *,
        checks: bool,
    ) -> None:
        self._types = user_types
        self._traffic = counted
        self._checks = checks

    def read(self, obj: Any, party: str, place: int) -> Any:
        """The value of `obj` for a call of `party`, whose place among all parties is given.

        Raises:
            ValueRefusedError: if it would have to cross and may not.
        """
        form = obj._form
        if type(form) is results.Held:
            form = form.form
        if not self._checks:
            return form
        try:
            if obj.party == party:
                return seal.opened(form)
            value = self._crossed(obj, form)
        except errors.ValueRefusedError as error:
            raise _made_by(obj, error) from error.__cause__
        shared = value if value is form else calls.NOTHING
        self._traffic.to(obj, place, value, shared=shared)
        return value

    def check(self, obj: Any, party: str) -> None:
        """Return if a call of `party` may read `obj`; as `read`, but nothing is counted.

        Raises:
            ValueRefusedError: as `read`.
        """
        if obj.party != party:
            self._for_others(obj)
        elif self._checks:
            try:
                seal.opened(_form(obj))
            except errors.ValueRefusedError as error:
                raise _made_by(obj, error) from error.__cause__

    def handed_out(self, obj: Any) -> Any:
        """The value of `obj` for the script; its arrays are known to be frozen when passed on."""
        return _marked(self._for_others(obj)) if self._checks else _form(obj)

    def _for_others(self, obj: Any) -> Any:
        """The value as another party has it, not counted."""
        form = _form(obj)
        if not self._checks:
            return form
        try:
            value = self._crossed(obj, form)
        except errors.ValueRefusedError as error:
            raise _made_by(obj, error) from error.__cause__
        if obj._sent is None:
            self._traffic.encoded_bytes(obj, value)  # refuses what is too large
        return value

    def _crossed(self, obj: Any, form: Any) -> Any:
        kind = type(form)
        if kind in seal.ATOMS:
            return form
        if kind is seal.Tree and form.plain:
            return seal.opened(form)
        if kind is seal.array_type():
            return self._array(obj, form)
        return types.cross(seal.opened(form), types=self._types, party=obj.party, call=obj.number)

    def _array(self, obj: Any, array: Any) -> Any:
        # Sealed arrays are read-only for good, so those that look the same after encoding and
        # decoding pass by reference; `types.cross` would copy them to be sure of that.
        if seal.is_plain(array):
            return array
        return types.cross(array, types=self._types, party=obj.party, call=obj.number)


def _form(obj: Any) -> Any:
    form = obj._form
    return form.form if type(form) is results.Held else form


def _made_by(obj: Any, error: errors.ValueRefusedError) -> errors.ValueRefusedError:
    error.party, error.call = obj.party, obj.number
    return error


def _marked(value: Any) -> Any:
    """The value with its sealed arrays marked as frozen.

    A script often passes what it got on to the next calls: marked arrays need no copy there.
    """
    kind = type(value)
    if kind is seal.array_type():
        from fed.codec import arrays

        return arrays.freeze(value) if not value.flags.writeable else value
    if kind is dict or kind is OrderedDict:
        for key, item in value.items():
            value[key] = _marked(item)
    elif kind is list:
        value[:] = [_marked(item) for item in value]
    elif kind is tuple:
        return tuple([_marked(item) for item in value])
    return value


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001  (a user's __str__ may raise anything)
        return f"its text can't be made: __str__ raised {type(second).__name__}"


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
    if level == "type" and isinstance(error, errors.FedError):
        # What the package itself says names calls and types, and holds nobody's data.
        level = "message"
    if level == "message":
        detail = _text(error)
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
