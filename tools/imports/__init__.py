"""`millrace import`: convert a run of verl, II-VERL, TinyV, RRM or Reasoning360 to a run here."""
