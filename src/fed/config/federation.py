"""federation.yaml: the settings that stand beside a script, for all modes in one file.

Scalars are read as YAML 1.2 reads them: only `true` and `false` are flags, so that a party may be
called NO and `isolation: off` is a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fed import errors
from fed.config import layers, settings

if TYPE_CHECKING:
    import yaml

FILE_NAME = "federation.yaml"

#: How people write it too; passing over it in silence would leave them without their settings.
_OTHER_NAME = "federation.yml"

#: The largest file that is read: a list of a million parties fits, a mistaken path does not fill
#: the memory.
MAX_FILE_BYTES = 64 * 2**20

#: How deep the keys may nest; the settings need 4.
MAX_DEPTH = 20

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,40}(?:_[0-9]{3}){0,10}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")

_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


def find(folder: Path) -> Path | None:
    """The federation.yaml in a folder (the script's), or None.

    Raises:
        ConfigError: if what has the name is no file, or a federation.yml stands there instead.
    """
    path = folder / FILE_NAME
    if path.is_file():
        return path
    if path.exists():
        raise errors.ConfigError(problem="it is not a file", source=str(path))
    other = folder / _OTHER_NAME
    if other.exists():
        raise errors.ConfigError(
            problem=f"a federation's settings are read from {FILE_NAME}, not {_OTHER_NAME}",
            fix="Rename the file",
            source=str(other),
        )
    return None


def read(path: Path) -> layers.Layer:
    """The settings in a federation.yaml; relative paths in it are relative to its folder.

    Raises:
        ConfigError: with file, line and key path: not readable, not YAML, an unknown key (names
            the nearest), a key that is there twice, or a value that the setting does not accept.
    """
    source = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise errors.ConfigError(
            problem=f"it can't be read: {error.strerror or error}", source=source
        ) from error
    if len(raw) > MAX_FILE_BYTES:
        raise errors.ConfigError(
            problem=f"it is larger than {MAX_FILE_BYTES} bytes",
            fix="Declare many parties by count: parties: {client: 1000}",
            source=source,
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.ConfigError(
            problem="it is not UTF-8", source=source, line=raw.count(b"\n", 0, error.start) + 1
        ) from error
    return parse(text, source=source, folder=path.parent)


def parse(text: str, *, source: str, folder: Path | None = None) -> layers.Layer:
    """The settings in the text of a federation.yaml.

    Args:
        text: the file's text.
        source: the file's path, for messages.
        folder: what relative paths are relative to.

    Raises:
        ConfigError: as `read`.
    """
    document = _Document(source)
    tree = document.tree(text)
    builder = layers.Builder(line_of=document.lines.get, folder=folder or Path())
    for key, value in tree.items():
        known = settings.BY_KEY.get(key)
        if key in settings.GROUPS:
            builder.group(key, value, source=source)
        elif known is not None:
            builder.put(known.name, value, source=source, key=key)
        elif key in settings.FIELDS:
            raise errors.ConfigError(
                problem="there is no such key",
                fix=f"In this file it is {settings.FIELDS[key].key}",
                key=key,
                source=source,
                line=document.lines.get(key),
            )
        else:
            raise builder.unknown(key, source=source, known=[*settings.BY_KEY, *settings.GROUPS])
    return builder.layer()


class _Document:
    """One YAML document as plain values, and the line of every key path."""

    def __init__(self, source: str) -> None:
        self.lines: dict[str, int] = {}
        self._source = source

    def tree(self, text: str) -> Mapping[str, object]:
        """The document's mapping; empty for an empty file."""
        import yaml

        loader: yaml.BaseLoader | None = None
        try:
            # BaseLoader resolves no scalar: `_scalar` does, in fewer ways than YAML 1.1.
            loader = yaml.BaseLoader(text)
            node = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._error(
                f"it is not YAML: {error.problem or error.context}",
                line=mark.line + 1 if mark is not None else None,
            ) from error
        except yaml.YAMLError as error:
            raise self._error(f"it is not YAML: {error}") from error
        except RecursionError as error:
            raise self._error(f"it nests deeper than {MAX_DEPTH} levels") from error
        finally:
            if loader is not None:
                loader.dispose()
        if node is None:
            return {}
        self._refuse_aliases(text)
        value = self._value(node, "", 0)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(
                "it is no mapping of settings", line=1, fix="Write one `key: value` a line"
            )
        return value

    def _refuse_aliases(self, text: str) -> None:
        # An alias repeats a node under a second key path: one line would speak for both, and a
        # few lines could stand for billions of values.
        import yaml

        for token in yaml.scan(text, Loader=yaml.BaseLoader):
            if isinstance(token, (yaml.AliasToken, yaml.AnchorToken)):
                raise self._error(
                    "anchors and aliases are not read here",
                    line=token.start_mark.line + 1,
                    fix="Write the value out",
                )

    def _value(self, node: yaml.Node, path: str, depth: int) -> object:
        import yaml

        line = node.start_mark.line + 1
        if depth > MAX_DEPTH:
            raise self._error(f"it nests deeper than {MAX_DEPTH} levels", line=line)
        if node.tag not in _PLAIN_TAGS:
            raise self._error(
                f"the tag {node.tag!r} is not read here", line=line, key=path, fix="Leave it out"
            )
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style is not None else _scalar(node.value)
        if isinstance(node, yaml.SequenceNode):
            found: list[object] = []
            for position, item in enumerate(node.value):
                inner = f"{path}[{position}]"
                self.lines[inner] = item.start_mark.line + 1
                found.append(self._value(item, inner, depth + 1))
            return found
        return self._mapping(node, path, depth)

    def _mapping(self, node: yaml.Node, path: str, depth: int) -> dict[str, object]:
        import yaml

        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                raise self._error("a key is not text", line=line, key=path or None)
            # A key is a name, whatever it looks like: a party may be called 007.
            key: str = key_node.value
            inner = f"{path}.{key}" if path else key
            if key in found:
                raise self._error(
                    f"it is there twice, first in line {self.lines[inner]}",
                    line=line,
                    key=inner,
                    fix="Leave one out",
                )
            self.lines[inner] = line
            found[key] = self._value(value_node, inner, depth + 1)
        return found

    def _error(
        self, problem: str, *, line: int | None = None, key: str | None = None, fix: str = ""
    ) -> errors.ConfigError:
        return errors.ConfigError(problem=problem, fix=fix, key=key, source=self._source, line=line)


def _scalar(text: str) -> object:
    """A plain scalar as YAML 1.2's core schema reads it, without octal and hexadecimal."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
