"""`millrace difficulty`: measure how often models solve each row of a data set, and select rows by bounds."""
