"""What the product's threads run: nothing of an attack may be among it."""

from __future__ import annotations

import sys
import threading

#: Audit events of the interpreter (PEP 578) that mean that something runs which was not there.
_RUNNING = (
    "exec", "compile", "import", "marshal.loads", "pickle.find_class", "os.system", "os.exec",
    "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen", "ctypes.dlopen",
    "code.__new__", "function.__new__", "webbrowser.open", "socket.connect",
)  # fmt: skip

_watches: list[Watch] = []


class Watch:
    """Keeps record of what threads whose name begins with `fed-` run, within a `with` block.

    Attributes:
        ran: (thread, event, its arguments as text).
    """

    _is_hooked = False

    def __init__(self):
        self.ran = []

    def __enter__(self):
        if not Watch._is_hooked:
            # A hook can't be taken away again; without a watch it does nothing.
            Watch._is_hooked = True
            sys.addaudithook(_hear)
        _watches.append(self)
        return self

    def __exit__(self, *told):
        _watches.remove(self)


def _hear(event, args):
    if not _watches or event not in _RUNNING:
        return
    thread = threading.current_thread().name
    # A dialler connects, which is what it is there for.
    if not thread.startswith("fed-") or (event == "socket.connect" and "dial" in thread):
        return
    for watch in _watches:
        watch.ran.append((thread, event, repr(args)[:200]))
