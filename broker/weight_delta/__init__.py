"""Encode the lossless delta between two versions of the weights, and apply it.

`layout.py` cuts a file of weights into tensors and segments, `segment.py` encodes one segment's changed elements, and
`delta_file.py` makes a delta of two files, and a file of a base and a chain of deltas. Without torch: an element is a
bit pattern of its width, whatever its type. Used by the learner's relay and the generators' receiver; zstandard and
xxhash are in the `model` extra, which both roles have.
"""
