"""RayFed: one federated script in three modes.

Loads nothing but this list of names; each comes with its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fed._version import __version__

if TYPE_CHECKING:
    from fed.errors import (
        ActorKilledError,
        ClusterError,
        ConfigError,
        DeadlockError,
        DivergenceError,
        FedError,
        FedRemoteError,
        FedTimeoutError,
        HandshakeError,
        IsolationError,
        MissingPartyError,
        NotRemotableError,
        PartyError,
        PartyLostError,
        PartyStalledError,
        PartyUnreachableError,
        RemoteCause,
        ReturnCountError,
        SessionError,
        SpillError,
        TransportError,
        UnknownMethodError,
        UnknownPartyError,
        UsageError,
        ValueRefusedError,
    )
    from fed.model.objects import WITHHELD, FedObject
    from fed.model.remote import ActorHandle, RemoteClass, RemoteFunction, remote
    from fed.model.verbs import (
        current_party,
        get,
        kill,
        parties,
        progress,
        put,
        reduce,
        rng,
        wait,
    )
    from fed.session import init, shutdown

_MODULES = {
    "errors": (
        "ActorKilledError ClusterError ConfigError DeadlockError DivergenceError FedError "
        "FedRemoteError FedTimeoutError HandshakeError IsolationError MissingPartyError "
        "NotRemotableError PartyError PartyLostError PartyStalledError PartyUnreachableError "
        "RemoteCause ReturnCountError SessionError SpillError TransportError UnknownMethodError "
        "UnknownPartyError UsageError ValueRefusedError"
    ),
    "model.objects": "WITHHELD FedObject",
    "model.remote": "ActorHandle RemoteClass RemoteFunction remote",
    "model.verbs": "current_party get kill parties progress put reduce rng wait",
    "session": "init shutdown",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

#: RayFed's raw messages: not offered, and said so when they are called.
_REFUSED = {"send": "refused_send", "recv": "refused_recv"}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"fed.{_HOME[name]}"), name)
    elif name in _REFUSED:
        value = getattr(importlib.import_module("fed.model.verbs"), _REFUSED[name])
    else:
        # Not `from fed import names`: that asks this function for "names" first.
        names = importlib.import_module("fed.names")
        raise AttributeError(
            f"module 'fed' has no attribute {name!r}{names.did_you_mean(name, _HOME)}"
        )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
