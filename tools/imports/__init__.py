"""`millrace import`: a run of verl, II-VERL, TinyV, RRM or Reasoning360, written as a run here."""
