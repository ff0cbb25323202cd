"""Signatures of what is called: wrong arguments fail at `.remote(...)`, as in plain Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

#: (positional arguments, keyword arguments) of a call, one form for each way to write it.
Bound = tuple[tuple[Any, ...], dict[str, Any]]
Binder = Callable[..., Bound]

MISSING: Final = type("_Missing", (), {"__slots__": (), "__repr__": lambda self: "..."})()

_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameters(function: Any, *, bound: bool) -> list[inspect.Parameter] | None:
    """The parameters of `function`, without the first one if it is `bound` to an instance.

    Of a wrapper these are its own, whatever it says it wraps: it may add, drop or rename some.
    None where Python knows no signature (some built-in functions): anything goes then.
    """
    try:
        found = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (ValueError, TypeError):
        return None
    if bound and found and found[0].kind in _BY_POSITION:
        del found[0]
    return found


def simple_names(found: list[inspect.Parameter] | None, *, at_most: int) -> list[str] | None:
    """The names if all parameters are plain required ones and not too many, else None."""
    if found is None or len(found) > at_most:
        return None
    if all(
        p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in found
    ):
        return [p.name for p in found]
    return None


def binder(found: list[inspect.Parameter] | None, *, name: str) -> Binder:
    """A function that takes a call's arguments and returns them in one normal form.

    What can stand by position stands by position, so `f(1, 2)` and `f(1, b=2)` make the same
    record; arguments left to their defaults stay left out. Wrong arguments raise the `TypeError`
    that Python itself raises for a wrong call, with `name` in its text.
    """
    if found is None:
        return lambda *args, **kwargs: (args, kwargs)
    # Python's own call machinery is many times faster than inspect.Signature.bind, so a function
    # with the same parameters is compiled, once per signature.
    by_position = [p for p in found if p.kind in _BY_POSITION]
    required = [p.name for p in by_position if p.default is p.empty]
    body = [f"_fed_args = ({''.join(name + ', ' for name in required)})", "_fed_kwargs = {}"]
    for place, p in enumerate(by_position[len(required) :], start=len(required)):
        body += [
            f"if {p.name} is not _fed_missing:",
            f"    if _fed_len(_fed_args) == {place}: _fed_args += ({p.name},)",
            f"    else: _fed_kwargs[{p.name!r}] = {p.name}",
        ]
    declared: list[str] = []
    last_slash = sum(p.kind is p.POSITIONAL_ONLY for p in found) - 1
    star = False
    for place, p in enumerate(found):
        if p.kind is p.VAR_POSITIONAL:
            declared.append(f"*{p.name}")
            body.append(f"_fed_args += {p.name}")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            declared.append(f"**{p.name}")
            body.append(f"_fed_kwargs.update({p.name})")
        else:
            if p.kind is p.KEYWORD_ONLY:
                if not star:
                    declared.append("*")
                    star = True
                test = "" if p.default is p.empty else f"if {p.name} is not _fed_missing: "
                body.append(f"{test}_fed_kwargs[{p.name!r}] = {p.name}")
            declared.append(p.name if p.default is p.empty else f"{p.name}=_fed_missing")
            if place == last_slash:
                declared.append("/")
    lines = [f"def bind({', '.join(declared)}):", *body, "return _fed_args, _fed_kwargs"]
    # A parameter may be called `len`.
    scope: dict[str, Any] = {"_fed_missing": MISSING, "_fed_len": len}
    exec("\n    ".join(lines), scope)  # noqa: S102  (only names of parameters enter)
    bind: Any = scope["bind"]
    bind.__name__ = name.rpartition(".")[2]
    bind.__qualname__ = name
    return bind  # type: ignore[no-any-return]
