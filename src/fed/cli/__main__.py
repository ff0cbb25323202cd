"""`python -m fed.cli`: the same as the command `rayfed`."""

from __future__ import annotations

from fed.cli import main

if __name__ == "__main__":
    main.main()
