"""The command `rayfed`: one module per command, each parses, calls one function below, prints.

The only part that prints, exits, handles Ctrl-C or sets up logging. Modules load nothing heavy
before a command needs it.
"""
