"""`millrace judge-check`: measure how far a served judge agrees with known labels."""
