"""This package says what a run is, in frozen, closed, documented sections. Nothing heavy delays a typo's answer."""
