"""How groups change hands: leases on streams, the scripts of the learner that owns its run, operators' requests."""
