"""`make prove-gpu`: what only a GPU can show, step by step, each a fresh process with a deadline.

`__main__` is the command, `plan` the steps with their limits, `step` the process of one step, and `outcomes` how a step
ended. These load nothing but the standard library, so that a machine that lacks a package is told which step lacks it.
The other modules are the steps. Without a GPU each runs its CPU form, or says why it has none.
"""
