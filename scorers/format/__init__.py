"""The shape of a completion, whatever it says.

`completion_shape` looks at the whole, and asks `answer_shapes` about the part after the thinking and `script` about the
letters. `scorer` gives that score to rows that want nothing else.
"""
