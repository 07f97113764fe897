"""Report a run: metrics of a step, latencies, alarms, and the curves at its end.

`logger.py` is the interface of the loggers. Each logger is one file, and `build.py` builds the configured ones.
"""
