"""`millrace judge-check`: how far a served judge agrees with known labels."""
