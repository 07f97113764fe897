"""What a run says of itself: metrics of a step, latencies, alarms, and the curves at its end."""
