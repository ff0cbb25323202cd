"""What tests are made of: contract suites, fake clock, in-memory wire, fakes of ports.

Nothing of the product imports it. Everything here is deterministic: times and randomness are
passed in.
"""
