"""numpy's part of the type table: which arrays may cross, and arrays that nobody can change.

Imported only once the program itself has loaded numpy.

A *frozen* array can't be written to by anyone who holds an ordinary handle to it: it is read-only,
its memory is a `bytes` object or marked by `freeze`, and `flags.writeable = True` fails.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import numpy as np

from fed.codec import types

Array = np.ndarray[Any, np.dtype[Any]]

#: Element types by their spelling in the array protocol; the same on every machine. Left out:
#: object, void, StringDType, `longdouble` (its bytes differ between machines).
_FIXED = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class Frozen(np.ndarray[Any, np.dtype[Any]]):
    """Marks memory that is never written again; made by `freeze` and never handed out itself."""


#: numpy's own single instances of the plain native types, by id: the quick way to know one. They
#: live as long as numpy, so an id is never used again.
_CANONICAL = {id(np.dtype(code)): np.dtype(code) for code in _FIXED}

#: The same types in any byte order, as the array protocol spells them without the order.
_SPELLED = frozenset(dtype.str[1:] for dtype in _CANONICAL.values())


def why_refused(dtype: np.dtype[Any]) -> str | None:
    """The rule that keeps arrays of `dtype` from crossing, or None if they may cross."""
    if id(dtype) in _CANONICAL:
        return None
    if type(dtype).__module__ not in ("numpy", "numpy.dtypes"):
        return f"dtype {dtype} belongs to an extension; convert it to a numpy type"
    if dtype.itemsize == 0:
        return "elements without bytes don't cross"
    if dtype.hasobject:
        return "arrays of Python objects don't cross; convert it to a plain dtype or a list"
    if dtype.subdtype is not None:
        return why_refused(dtype.subdtype[0])
    if dtype.names is not None:
        return _why_fields_refused(dtype)
    if dtype.kind in "SUmM" or (dtype.kind in "biufc" and dtype.str[1:] in _SPELLED):
        return None
    if dtype.kind in "fc":
        return f"{dtype} differs between machines; convert it to float64 or complex128"
    return f"dtype {dtype} doesn't cross"


def _why_fields_refused(dtype: np.dtype[Any]) -> str | None:
    fields: Any = dtype.fields
    names = sorted(dtype.names or (), key=lambda name: fields[name][1])
    end = 0
    for name in names:
        inner, offset, *titles = fields[name]
        if titles:
            return f"field {name!r} has a title; make the dtype without titles"
        if offset < end:
            return f"field {name!r} overlaps another; make the dtype without overlaps"
        end = offset + inner.itemsize
        reason = why_refused(inner)
        if reason is not None:
            return f"field {name!r}: {reason}"
    return None


def canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as the other side makes it: same layout, no metadata, numpy's own instance."""
    if id(dtype) in _CANONICAL:
        return dtype
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((canonical(base), shape))
    if dtype.names is not None:
        fields: Any = dtype.fields
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [canonical(fields[name][0]) for name in dtype.names],
                "offsets": [fields[name][1] for name in dtype.names],
                "itemsize": dtype.itemsize,
            },
            align=dtype.isalignedstruct,
        )
    return np.dtype(dtype.str)


def has_padding(dtype: np.dtype[Any]) -> bool:
    """True if an element has bytes that belong to no field (they may hold old memory)."""
    if dtype.subdtype is not None:
        return has_padding(dtype.subdtype[0])
    if dtype.names is None:
        return False
    fields: Any = dtype.fields
    inner = [fields[name][0] for name in dtype.names]
    return sum(part.itemsize for part in inner) != dtype.itemsize or any(map(has_padding, inner))


def is_standard(dtype: np.dtype[Any]) -> bool:
    """True if the other side makes the same dtype: no metadata, no other name, no padding."""
    if dtype.metadata is not None:
        return False
    if dtype.subdtype is not None:
        return is_standard(dtype.subdtype[0])
    if dtype.names is not None:
        fields: Any = dtype.fields
        inner = (fields[name][0] for name in dtype.names)
        return not has_padding(dtype) and all(map(is_standard, inner))
    return dtype.char == np.dtype(dtype.str).char


def is_frozen(array: Array) -> bool:
    """True if the array is read-only and no ordinary handle to its memory can change it."""
    base: Any = array
    while type(base) is np.ndarray:  # numpy gives no writeable view of memory that is read-only
        base = base.base
    if type(base) is memoryview:
        return base.readonly and type(base.obj) in _NEVER_WRITTEN
    return type(base) is bytes


_NEVER_WRITTEN = (bytes, Frozen)


def freeze(array: Array) -> Array:
    """A frozen view of a contiguous array's memory, without a copy.

    The caller vouches that nobody writes to that memory from now on. Order, shape and dtype stay;
    `array` itself becomes read-only.
    """
    array.flags.writeable = False
    flat = array.reshape(-1, order="A") if array.ndim != 1 else array
    if flat.size == 0:
        return frozen_copy(array)
    return view_of(
        _memory(flat.view(np.uint8)), array.dtype, array.shape, fortran=is_fortran(array)
    )


def _memory(flat: Array) -> memoryview:
    """The bytes of a read-only byte array, marked as never written again."""
    marked: Any = flat.view(Frozen)
    return memoryview(marked)


def view_of(
    memory: memoryview | bytes, dtype: np.dtype[Any], shape: tuple[int, ...], *, fortran: bool
) -> Array:
    """A read-only array over `memory`, exactly as many bytes as shape and dtype need."""
    if not memory:
        return np.ndarray(shape, dtype, b"", order="F" if fortran else "C")
    flat: Array = np.frombuffer(memory, dtype)
    if fortran:
        return flat.reshape(shape[::-1]).T
    return flat if shape == flat.shape else flat.reshape(shape)


def is_fortran(array: Array) -> bool:
    """True if elements lie in Fortran order and not in C order too."""
    return bool(array.flags.fnc)


def frozen_copy(array: Array) -> Array:
    """A frozen copy with the other side's dtype and strides; Fortran order is kept.

    Bytes that belong to no field are zero in the copy.
    """
    dtype = array.dtype
    if id(dtype) not in _CANONICAL:
        dtype = canonical(dtype)
        if has_padding(dtype):
            clean = np.zeros(array.shape, dtype, order="F" if is_fortran(array) else "C")
            _copy_fields(array, clean)
            array = clean
    if array.flags.fnc:
        return np.ndarray(array.shape, dtype, array.tobytes("F"), order="F")
    return np.ndarray(array.shape, dtype, array.tobytes())


def _copy_fields(source: Array, target: Array) -> None:
    names = target.dtype.names
    if names is None:
        target[...] = source
        return
    for name in names:
        _copy_fields(source[name], target[name])


def handler(cls: type) -> types.Handler | None:
    """How instances of a class of numpy cross; None if they don't."""
    if cls is np.ndarray:
        return cross
    return cross_scalar if issubclass(cls, np.generic) else None


def is_array_type(cls: type) -> bool:
    """True for numpy's array class itself."""
    return cls is np.ndarray


def cross(array: Array, _: object = None, __: int = 0) -> Array:
    """The array as the other side gets it: frozen, and C- or Fortran-contiguous.

    A frozen, aligned, contiguous array passes by reference; others are copied.

    Raises:
        ValueRefusedError: with an empty path, if arrays of its dtype may not cross.
    """
    dtype = array.dtype
    if id(dtype) not in _CANONICAL:
        check(array)
        if not is_standard(dtype):
            return frozen_copy(array)
    flags = array.flags
    if flags.forc and flags.aligned:
        base: Any = array.base
        if type(base) is np.ndarray:
            base = base.base
        kind = type(base)
        if kind is bytes or (kind is memoryview and type(base.obj) in _NEVER_WRITTEN):
            return array
    return frozen_copy(array)


def cross_scalar(value: np.generic, _: object = None, __: int = 0) -> np.generic:
    """The numpy scalar as the other side gets it.

    Raises:
        ValueRefusedError: with an empty path, if scalars of its dtype may not cross.
    """
    if type(value) in _PASSED:
        return value
    check(value)
    made: Any = frozen_copy(np.asarray(value))
    scalar: np.generic = made[()]
    return scalar


def check(value: Array | np.generic) -> None:
    """Return if arrays and scalars of the value's dtype may cross.

    Raises:
        ValueRefusedError: with an empty path, if they may not.
    """
    reason = why_refused(value.dtype)
    if reason is not None:
        raise types.refusal(value, reason)


#: Scalar types whose instances never change and come back as the same type.
_PASSED = frozenset(
    (
        *(dtype.type for dtype in _CANONICAL.values()),
        np.str_,
        np.bytes_,
        np.datetime64,
        np.timedelta64,
    )
)


def spec_of(dtype: np.dtype[Any]) -> Any:
    """The dtype in plain words, for the wire: a str, or lists for structures and subarrays."""
    if id(dtype) in _CANONICAL:
        return dtype.str
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [spec_of(base), list(shape)]
    if dtype.names is not None:
        fields: Any = dtype.fields
        described = [[name, spec_of(fields[name][0]), fields[name][1]] for name in dtype.names]
        return [dtype.itemsize, dtype.isalignedstruct, described]
    return dtype.str


def dtype_of(spec: Any) -> np.dtype[Any]:
    """The dtype that `spec_of` describes so.

    Raises:
        ValueError: if there is none that may cross; the text says why.
    """
    dtype = _KNOWN.get(spec) if type(spec) is str else None
    if dtype is None:
        dtype = _parsed(spec, 0)
        if spec_of(dtype) != spec:
            raise ValueError("a dtype isn't written the standard way")
        reason = why_refused(dtype)
        if reason is not None:
            raise ValueError(reason)
    return dtype


_KNOWN = {dtype.str: dtype for dtype in _CANONICAL.values()}

#: What numpy's parser of dtype texts is given; the rest of its language stays out of reach.
_SPEC = re.compile(r"[<>|][biufcSU][0-9]{1,10}|[<>][mM]8(\[[0-9]{0,10}[A-Za-zμ]{1,2}\])?")

#: Structures inside structures.
_NESTED_DTYPES = 8


def _parsed(spec: Any, depth: int) -> np.dtype[Any]:
    if type(spec) is str and _SPEC.fullmatch(spec):
        return np.dtype(spec)
    if type(spec) is list and depth < _NESTED_DTYPES:
        if len(spec) == 2 and type(spec[1]) is list:
            return np.dtype((_parsed(spec[0], depth + 1), shape_of(spec[1])))
        if len(spec) == 3 and type(spec[2]) is list:
            size, aligned, fields = spec
            if type(size) is not int or type(aligned) is not bool:
                raise ValueError("a dtype is malformed")
            names, specs, offsets = zip(*fields, strict=True) if fields else ((), (), ())
            return np.dtype(
                {
                    "names": list(names),
                    "formats": [_parsed(inner, depth + 1) for inner in specs],
                    "offsets": list(offsets),
                    "itemsize": size,
                },
                align=aligned,
            )
    raise ValueError("a dtype is malformed")


def shape_of(lengths: Any) -> tuple[int, ...]:
    """The shape, checked: at most 32 lengths, none negative, their product within 63 bits.

    Raises:
        ValueError: if it isn't one.
    """
    if type(lengths) is not list or len(lengths) > _DIMENSIONS:
        raise ValueError("a shape is malformed")
    if lengths and (set(map(type, lengths)) != _JUST_INT or min(lengths) < 0):
        raise ValueError("a shape is malformed")
    if math.prod(filter(None, lengths)) >= 1 << 62:
        raise ValueError("a shape is too large")
    return tuple(lengths)


_JUST_INT = {int}

#: The most dimensions that every supported numpy can hold.
_DIMENSIONS = 32


def memory_of(array: Array) -> memoryview:
    """The bytes of the elements in the array's own order (C unless Fortran-contiguous).

    No copy is made of an array that is contiguous and without padding between fields.
    """
    flags = array.flags
    if not flags.forc or (array.dtype.names is not None and has_padding(array.dtype)):
        array = frozen_copy(array)
    flat = array.T.reshape(-1) if flags.fnc else array.reshape(-1)
    memory: Any = flat.view(np.uint8)
    return memoryview(memory)


def marked(body: memoryview) -> memoryview:
    """A read-only view of received memory whose parts, as arrays, count as frozen.

    The caller vouches that nobody writes to it from now on.
    """
    flat = np.frombuffer(body, np.uint8)
    flat.flags.writeable = False
    return _memory(flat)


def rebuilt(spec: Any, order: Any, lengths: Any, memory: memoryview | bytes) -> Array:
    """The array of a description and exactly its bytes, over that memory.

    Raises:
        ValueError: if they don't describe an array that may cross.
    """
    dtype = dtype_of(spec)
    shape = shape_of(lengths)
    if math.prod(shape) * dtype.itemsize != len(memory):
        raise ValueError("an array's shape doesn't match its bytes")
    if order not in (0, 1) or type(order) is not int:
        raise ValueError("an array's order is unknown")
    if type(memory) is memoryview and not isinstance(memory.obj, Frozen):
        memory = marked(memory)
    array = view_of(memory, dtype, shape, fortran=order == 1)
    if is_fortran(array) != (order == 1):
        raise ValueError("an array's order isn't written the standard way")
    _check_texts(array)
    return array if array.flags.aligned else frozen_copy(array)


def _check_texts(array: Array) -> None:
    """Refuse code points that no str can hold: numpy would fail on them at some later moment."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_texts(array[name])
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        points: Array = np.ascontiguousarray(array).view(f"{dtype.str[0]}u4")
        if points.max() > sys.maxunicode:
            raise ValueError("an array holds a text that isn't Unicode")


def scalar_parts(value: np.generic) -> tuple[Any, bytes]:
    """A numpy scalar as the description of its dtype and its bytes.

    Raises:
        ValueRefusedError: with an empty path, if scalars of its dtype may not cross.
    """
    if type(value) is np.str_:
        return "U", str.__str__(value).encode("utf-8", "surrogatepass")
    if type(value) is np.bytes_:
        return "S", bytes(value)
    check(value)
    array = frozen_copy(np.asarray(value))
    return spec_of(array.dtype), array.tobytes()


def rebuilt_scalar(spec: Any, data: bytes) -> np.generic:
    """The numpy scalar of such parts.

    Raises:
        ValueError: if they don't describe one that may cross.
    """
    if spec == "U":
        return np.str_(data.decode("utf-8", "surrogatepass"))
    if spec == "S":
        return np.bytes_(data)
    made: Any = rebuilt(spec, 0, [], data)
    scalar: np.generic = made[()]
    return scalar
