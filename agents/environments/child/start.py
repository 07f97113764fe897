"""Run a task's parent process: a script for any Python, with a descriptor as its one argument.

The other files of this folder import each other by their full names. Only this folder is registered as its package, so
that neither Millrace nor its dependencies are needed, and a user's package named `agents` is found.
"""

from __future__ import annotations

import importlib
import os
import sys
import types

PACKAGE = "agents.environments.child"


def main() -> None:
    """Register the folder as a package, and run the parent process."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != folder]
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    importlib.import_module(f"{PACKAGE}.parent").main(int(sys.argv[1]))


if __name__ == "__main__":
    main()
