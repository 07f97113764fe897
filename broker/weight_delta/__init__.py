"""The lossless delta between two versions of the weights: its coding, its file, and how a version is made from it.

`layout.py` cuts a file of weights into tensors and segments, `segment.py` codes one segment's changed elements, and
`delta_file.py` makes a delta of two files, and a file of a base and a chain of deltas. Without torch: an
element is a bit pattern of its width, whatever its type. Used by the learner's relay and by the generators' receiver;
zstandard and xxhash are in the `model` extra, which both roles have.
"""
