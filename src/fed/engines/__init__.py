"""The engines: three implementations of the port in `fed.model.engine`, one per mode.

They do not know one another. Each runs the same script and gives the same values, errors, call
numbers and digests.
"""
