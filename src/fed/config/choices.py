"""The settings that are one word of a few, as enums; each member equals its word."""

from __future__ import annotations

import enum


class Mode(enum.StrEnum):
    """Who runs the script, and where the parties are."""

    SIMULATION = "simulation"
    SINGLE_CONTROLLER = "single-controller"
    MULTI_CONTROLLER = "multi-controller"


class Isolation(enum.StrEnum):
    """How far simulated parties are kept from one another."""

    SEALED = "sealed"
    PROCESS = "process"
    CHECK = "check"
    OFF = "off"


class ErrorDetail(enum.StrEnum):
    """What a party whose body raised lets out about the error."""

    TYPE = "type"
    MESSAGE = "message"
    TRACEBACK = "traceback"


class Compute(enum.StrEnum):
    """What runs a party's own calls in multi-controller."""

    AUTO = "auto"
    EMBEDDED = "embedded"
    RAY = "ray"


class Compression(enum.StrEnum):
    """How values are compressed on their way to another party."""

    OFF = "off"
    ZSTD = "zstd"


class LogLevel(enum.StrEnum):
    """The least level that the package's logger lets through."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


#: Other spellings: the RFC's of the mode, the logging module's of the level.
SPELLINGS = {"multiple-controller": "multi-controller", "warn": "warning"}


def spelled(text: str) -> str:
    """The word as the enums spell it: lower case, dashes for underscores, known other spellings."""
    word = text.strip().casefold().replace("_", "-")
    return SPELLINGS.get(word, word)
