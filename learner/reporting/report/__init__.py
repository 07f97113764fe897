"""Report a run on one page: what it learnt, where its time went, and what an operator should look at."""
