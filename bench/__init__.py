"""The product measured beside what it is compared to, in one run: ratios, best of several.

Absolute times of a shared machine mean little; every figure here comes with the one that it is
held against, taken in turns in the same process. `python -m bench.simulation` prints one JSON line
per measurement.
"""
