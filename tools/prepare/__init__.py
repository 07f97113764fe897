"""`millrace prepare`: convert published or generated data sets to rows for training or evaluation."""
