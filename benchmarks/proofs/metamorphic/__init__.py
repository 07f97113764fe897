"""`make prove-metamorphic`: references rewritten rightly and wrongly, through the math scorer."""
