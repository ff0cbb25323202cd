"""What a job is told: its settings, the layers they come from, and the parties it has.

Reads text and files, decides, and returns frozen values. Opens no connection, and of TLS files
knows the paths alone. YAML is loaded only when a federation.yaml is read.
"""
