"""A run reports here: metrics of a step, latencies, alarms, and the curves at its end.

`logger.py` is the seam of the receivers of metrics. Each logger is one file, and `build.py` builds the loggers that the
configuration names.
"""
