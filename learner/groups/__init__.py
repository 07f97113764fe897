"""Move groups through the learner: issue, intake, filters, selection for a step; and held-out rounds."""
