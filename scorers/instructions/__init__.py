"""The instructions of IFEval and IFBench, one file a family of them.

Each instruction is a function from its arguments in the row to a check; `catalogue` is the table of all. A check takes
the response, without its thinking, and says what is wrong with it. `scorers.instructions.scorer` is the scorer.
"""
