"""The verbs that manage runs: `runs`, `rm`, `pause`, `resume`, `drain` and `redis-cli`; and how tools see a run's folder."""
