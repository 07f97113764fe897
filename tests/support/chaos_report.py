"""The keys that the report of `millrace chaos` has of its own, beside those of the audit."""

from __future__ import annotations

OWN = {"run", "seed", "exit_code", "reason", "steps", "seconds", "kills", "disturbances", "back_s"}
OWN |= {"eval_pass_rate", "learning_curve"}
