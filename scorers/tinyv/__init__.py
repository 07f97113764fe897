"""Answers that a rule may have taken for wrong, judged again by a served TinyV."""
