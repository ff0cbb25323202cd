"""What may cross between parties, and how it is written down: pure functions of values and bytes.

Nothing here opens a file, a socket or a thread, and nothing runs or imports what it reads.
Heavy libraries (numpy, pandas, pyarrow, torch) are met only where the program has loaded them.
"""
