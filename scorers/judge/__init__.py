"""Free answers that a served model compares with the row's reference."""
