"""`millrace chaos`: a run that is killed and cut off all the time, and its audit."""
