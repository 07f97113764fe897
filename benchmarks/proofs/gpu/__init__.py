"""`make prove-gpu`: what only a GPU can show, step by step, each with a deadline.

`__main__` is the command, `plan` the steps with their costs and limits, `workers` the processes that run them, `step`
what such a process does with one, and `outcomes` how a step ended. These load nothing but the standard library, so that
a machine that lacks a package is told which step lacks it. `libraries` is what workers are forked with. The other
modules are the steps. Without a GPU each runs its CPU form, or says why it has none.
"""
