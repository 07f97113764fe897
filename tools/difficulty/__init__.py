"""`millrace difficulty`: how often models solve each row of a data set, and the rows within bounds."""
