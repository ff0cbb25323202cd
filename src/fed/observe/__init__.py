"""What a person or a script learns of a run: progress, log fields, metrics, the run report.

Plain data in, text or JSON out; nothing here computes or waits for a call.
"""
