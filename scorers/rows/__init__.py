"""Many single rows, scored side by side: processes that score, the calls of a served model together, `score_many`."""
