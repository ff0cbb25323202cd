"""The programming model, pure: calls and their numbers, fed objects, remote functions, actors.

Nothing here computes, waits or sends. An engine (see `engine.py`) does, and whoever starts a
session puts it into the slot.
"""
