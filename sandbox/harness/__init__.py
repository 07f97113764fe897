"""The harness: what runs beside an answer, inside the sandbox, and alone says whether its checks passed.

The standard library only, Python 3.9 and later, nothing of this project installed: `verdicts.code.harness` sends these
modules as one source file. Text is executed here and nowhere else in the project. `start` says how it works.
"""
