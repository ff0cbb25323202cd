"""Exit codes: the one table that turns how a run ended into a number.

docs/errors.md has the same table; a test compares them.
"""

from __future__ import annotations

from typing import Final

from fed import errors

DONE: Final = 0
FAILED: Final = 1
BAD_COMMAND: Final = 2
UNREAD_ERRORS: Final = 3
REPORT_LOST: Final = 4
INTERRUPTED: Final = 130

#: Codes that are not an error class's, with what they say.
OTHERS: Final = {
    DONE: "the script ran to its end, and every error was read",
    FAILED: "an exception that is not RayFed's ended the script (or `sys.exit` with a text, or a "
    "stdout that can't be written)",
    BAD_COMMAND: "the command line is wrong; the script was not started",
    UNREAD_ERRORS: "the script ran to its end, but calls failed and nobody read their errors",
    REPORT_LOST: "all went well, but the file of `--report` could not be written",
    INTERRUPTED: "Ctrl-C (128 and the number of SIGINT)",
}

#: An error has the code of its class, or of the nearest class above that is listed. Codes stay
#: below 64, so that they meet neither sysexits.h nor the shell's own.
CODES: Final[dict[type[errors.FedError], int]] = {
    errors.FedError: 10,
    errors.UsageError: 11,
    errors.ConfigError: 12,
    errors.FedRemoteError: 13,
    errors.ValueRefusedError: 14,
    errors.DeadlockError: 15,
    errors.ActorKilledError: 16,
    errors.SpillError: 17,
    errors.FedTimeoutError: 18,
    errors.IsolationError: 19,
    errors.ReturnCountError: 20,
    errors.SessionError: 21,
    errors.UnknownPartyError: 22,
    errors.MissingPartyError: 23,
    errors.PartyError: 30,
    errors.PartyUnreachableError: 31,
    errors.PartyLostError: 32,
    errors.PartyStalledError: 33,
    errors.DivergenceError: 34,
    errors.HandshakeError: 35,
    errors.TransportError: 36,
    errors.ClusterError: 40,
}


def of_error(error: BaseException) -> int:
    """The code of a command that ended by `error`.

    `SystemExit` keeps its own code as Python does: none is 0, a text is 1.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return _of_system_exit(error.code)
    for cls in type(error).__mro__:
        if cls in CODES:
            return CODES[cls]
    return FAILED


def _of_system_exit(code: object) -> int:
    if code is None:
        return DONE
    # The operating system keeps the lowest eight bits; so does the report.
    return code & 0xFF if isinstance(code, int) else FAILED
