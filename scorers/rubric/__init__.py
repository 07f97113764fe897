"""Free answers that a served model grades by the row's criteria."""
