"""Value to value between two processes with mutual TLS: the link beside four other ways.

What may live here: one module per way, each with a `Receiver` and a `Sender`; what drives them in
turns; and the table that holds the figures against the project's bars.
"""
