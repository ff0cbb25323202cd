"""Which modules are the user's own: those whose state is private to a party in a real federation.

The main script, the modules in its folder and below, and those that the setting `codec.modules`
names. Libraries are not, wherever they lie: an environment's `site-packages` below the folder, the
standard library, and this package itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fed.codec import types

MAIN: Final = "__main__"

_PACKAGE: Final = __name__.partition(".")[0]


class UserCode:
    """Tells the user's modules from libraries.

    Args:
        modules: the setting `codec.modules`; a package's name covers the modules in it.
        folder: the folder of the main script; None if there is none.
    """

    def __init__(self, modules: Sequence[str] | None, folder: str | Path | None) -> None:
        self._named = frozenset(modules or ())
        self._folder = None if folder is None else types.resolved(folder)
        self._known: dict[str, bool] = {MAIN: True}
        self._loaded = 0
        self._modules: list[ModuleType] = []

    def covers(self, name: object) -> bool:
        """True if the module of that name is the user's."""
        if not isinstance(name, str):
            return False
        known = self._known.get(name)
        if known is None:
            known = self._judge(name)
            if name in sys.modules:
                self._known[name] = known
        return known

    def owns(self, item: Any) -> bool:
        """True for a function or class that a user's module defines."""
        space = getattr(item, "__globals__", None)
        return self.covers(space.get("__name__") if type(space) is dict else item.__module__)

    def modules(self) -> list[ModuleType]:
        """The user's modules that are loaded now, the main script first."""
        if len(sys.modules) != self._loaded:
            self._loaded = len(sys.modules)
            self._modules = [
                module
                for name, module in sorted(sys.modules.items())
                if isinstance(module, ModuleType) and self.covers(name)
            ]
        return self._modules

    def _judge(self, name: str) -> bool:
        if name.partition(".")[0] == _PACKAGE:
            return False
        if types.is_named(name, self._named):
            return True
        return types.is_below(sys.modules.get(name), self._folder)


def shown_name(module: ModuleType) -> str:
    """The module's name for people: the main script goes by its file's name."""
    name = module.__name__
    file = vars(module).get("__file__")
    return Path(file).stem if name == MAIN and isinstance(file, str) else name
