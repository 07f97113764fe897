"""Import the user's own code, in a task's parent process.

In: `package.module:name`. Out: the object; the import's errors are raised. The folder of the start comes last on the
path, as everywhere in Millrace.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import Any


def imported(import_path: str) -> Any:
    """Return the class or function of an import path. Raises AttributeError with similar names."""
    find_beside_the_start()
    module_name, _, name = import_path.partition(":")
    found = importlib.import_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"{module_name} has no {name}{hint}")
        found = getattr(found, part)
    return found


def find_beside_the_start() -> None:
    """Put the folder of the start last on the path."""
    folder = os.getcwd()
    if not {"", folder} & set(sys.path):
        sys.path.append(folder)
