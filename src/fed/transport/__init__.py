"""The link between two parties: value bytes in, the same bytes out, once, over one port.

`frames`, `handshake`, `link`, `outbox`, `inbox`, `mailbox` and `ranges` are pure: time and bytes
are passed in. Sockets, TLS, threads and files live in the modules that carry them.
"""
