"""What a run says of itself: metrics of a step, latencies, alarms, and the curves at its end.

`logger.py` is the seam of whatever receives the metrics; each logger is one file, and `build.py` chooses the ones that
the configuration names.
"""
