"""`millrace prepare`: published data sets, and made ones, as rows that a run trains on or is evaluated with."""
