"""Groups change hands here: leases on streams, the scripts of the learner that owns its run, requests of operators."""
