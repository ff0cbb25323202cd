"""RayFed: one federated script in three modes.

Loads nothing but this list of names; each comes with its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fed._version import __version__

if TYPE_CHECKING:
    from fed.errors import ActorKilledError as ActorKilledError
    from fed.errors import ClusterError as ClusterError
    from fed.errors import ConfigError as ConfigError
    from fed.errors import DeadlockError as DeadlockError
    from fed.errors import DivergenceError as DivergenceError
    from fed.errors import FedError as FedError
    from fed.errors import FedRemoteError as FedRemoteError
    from fed.errors import FedTimeoutError as FedTimeoutError
    from fed.errors import HandleError as HandleError
    from fed.errors import HandshakeError as HandshakeError
    from fed.errors import IsolationError as IsolationError
    from fed.errors import MissingPartyError as MissingPartyError
    from fed.errors import NotRemotableError as NotRemotableError
    from fed.errors import PartyError as PartyError
    from fed.errors import PartyLostError as PartyLostError
    from fed.errors import PartyStalledError as PartyStalledError
    from fed.errors import PartyUnreachableError as PartyUnreachableError
    from fed.errors import RemoteCause as RemoteCause
    from fed.errors import ReturnCountError as ReturnCountError
    from fed.errors import SessionError as SessionError
    from fed.errors import SpillError as SpillError
    from fed.errors import TransportError as TransportError
    from fed.errors import UnknownMethodError as UnknownMethodError
    from fed.errors import UnknownPartyError as UnknownPartyError
    from fed.errors import UsageError as UsageError
    from fed.errors import ValueRefusedError as ValueRefusedError
    from fed.model.objects import WITHHELD as WITHHELD
    from fed.model.objects import FedObject as FedObject
    from fed.model.remote import ActorHandle as ActorHandle
    from fed.model.remote import RemoteClass as RemoteClass
    from fed.model.remote import RemoteFunction as RemoteFunction
    from fed.model.remote import remote as remote
    from fed.model.verbs import current_party as current_party
    from fed.model.verbs import get as get
    from fed.model.verbs import kill as kill
    from fed.model.verbs import parties as parties
    from fed.model.verbs import progress as progress
    from fed.model.verbs import put as put
    from fed.model.verbs import reduce as reduce
    from fed.model.verbs import rng as rng
    from fed.model.verbs import wait as wait
    from fed.session import init as init
    from fed.session import shutdown as shutdown

_MODULES = {
    "errors": (
        "ActorKilledError ClusterError ConfigError DeadlockError DivergenceError FedError "
        "FedRemoteError FedTimeoutError HandleError HandshakeError IsolationError "
        "MissingPartyError NotRemotableError PartyError PartyLostError PartyStalledError "
        "PartyUnreachableError RemoteCause ReturnCountError SessionError SpillError "
        "TransportError UnknownMethodError UnknownPartyError UsageError ValueRefusedError"
    ),
    "model.objects": "WITHHELD FedObject",
    "model.remote": "ActorHandle RemoteClass RemoteFunction remote",
    "model.verbs": "current_party get kill parties progress put reduce rng wait",
    "session": "init shutdown",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

#: RayFed's raw messages: not offered, and said so when they are called.
_REFUSED = {"send": "refused_send", "recv": "refused_recv"}

__all__ = ["__version__", *sorted(_HOME)]


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
