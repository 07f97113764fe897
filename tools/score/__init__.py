"""`millrace score` and `millrace rescore`: responses scored without a run, or once more after one."""
