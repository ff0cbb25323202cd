"""Network addresses as the settings write them: `host:port`, `[2001:db8::1]:port`.

Nothing is resolved or opened here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ipaddress

_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
    r"(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?"
)
_PORT = re.compile(r"[0-9]{1,5}")


class Endpoint(NamedTuple):
    """A host (a name, or an IP address without brackets) and a TCP port in 0..65535."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it: `localhost`, 127.0.0.0/8, ::1."""
        ip = _ip(self.host)
        return self.host.casefold() == "localhost" if ip is None else ip.is_loopback

    @property
    def is_wildcard(self) -> bool:
        """True if it means every interface (`0.0.0.0`, `::`): a place to listen, not to dial."""
        ip = _ip(self.host)
        return ip is not None and ip.is_unspecified

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split(text: str) -> Endpoint:
    """The host and port in `text`.

    Raises:
        ValueError: says what is wrong, as the end of a sentence that begins with the address.
    """
    if "://" in text:
        raise ValueError("has a scheme; write host:port alone")
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not bracketed and ":" in host:
        raise ValueError("is an IPv6 address without brackets; write [address]:port")
    if not colon or not host or not _PORT.fullmatch(port_text):
        raise ValueError("has no port; write host:port")
    port = int(port_text)
    if port > 65535:
        raise ValueError("has a port above 65535")
    if bracketed:
        host = host[1:-1]
        ip = _ip(host)
        if ip is None or ip.version != 6:
            raise ValueError("has no IPv6 address in its brackets")
    elif not _HOST.fullmatch(host):
        raise ValueError("has no host name or IP address before the port")
    elif re.fullmatch(r"[0-9.]+", host) and _ip(host) is None:
        raise ValueError("has an IP address that is none")
    return Endpoint(host, port)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    import ipaddress

    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
