"""The script that a task's parent process is: run by any Python, with a descriptor as its one argument.

The files beside it import each other by their full names. Only the folder is entered under its name, so that neither
Millrace nor its dependencies are needed, and a package of the user's that is called `agents` is found as theirs.
"""

from __future__ import annotations

import importlib
import os
import sys
import types

PACKAGE = "agents.environments.child"


def main() -> None:
    """Enter the folder as a package, and be the parent process."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != folder]
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    importlib.import_module(f"{PACKAGE}.parent").main(int(sys.argv[1]))


if __name__ == "__main__":
    main()
