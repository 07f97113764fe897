"""How groups change hands: leases on streams, the learner's hold on its run, and what operators ask of it."""
