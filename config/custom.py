"""Import a user's own class. Also defines the section that names such a class.

In: `import_path: "package.module:Class"` and `options`. Out: the class, called with the arguments of its seam, and with
the options as keyword arguments. It is imported only in the process that uses it. If it can't be imported or built, a
CustomClassError names the class and the reason.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from config.section import Section


def _import_path(text: str) -> str:
    if not re.fullmatch(r"[\w.]+:[\w.]+", text):
        module, _, name = text.rpartition(".")
        example = f"{module}:{name}" if re.fullmatch(r"[\w.]+", text) and module else "my_scorer:reward"
        raise ValueError(f"it is MODULE:NAME with a colon, as in {example}")
    return text


ImportPath = Annotated[str, AfterValidator(_import_path)]


class CustomClassError(Exception):
    """A custom class can't be imported or built. The message names the class and the reason."""


def import_own(module_name: str) -> ModuleType:
    """Import a user's module: an installed one, one in PYTHONPATH, or one in the working directory.

    The working directory is searched last, so that a `config.py` in it does not replace a package of this program.
    Exceptions of the import are passed on.
    """
    if not {"", str(Path.cwd())} & set(sys.path):
        sys.path.append(str(Path.cwd()))
    return importlib.import_module(module_name)


class CustomSection(Section):
    """A class of your own, importable in the processes that use it."""

    type: Literal["custom"] = "custom"
    import_path: ImportPath
    """`package.module:Class`. The module is installed, in PYTHONPATH, or in the working directory."""
    options: dict[str, Any] = {}
    """Keyword arguments of the class."""


def build(section: CustomSection, **arguments: Any) -> Any:
    """Import the class that a section names, and call it.

    Args:
        section: names the class and its options.
        arguments: what the seam passes to each of its implementations; an option of the same name is refused.
    Raises:
        CustomClassError: the class can't be imported, or does not take these arguments.
    """
    try:
        return _import_class(section.import_path)(**arguments, **section.options)
    except TypeError as error:
        names = ", ".join([*arguments, *section.options]) or "(none)"
        raise CustomClassError(
            f"{section.import_path} can't be built from the arguments {names}: {error}"
        ) from error


def _import_class(import_path: str) -> Any:
    module_name, _, class_name = import_path.partition(":")
    try:
        found: Any = import_own(module_name)
    except Exception as error:
        raise CustomClassError(f"import_path {import_path}: importing it failed: {error!r}") from error
    for part in class_name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise CustomClassError(f"import_path {import_path}: {module_name} has no {class_name}{hint}")
        found = getattr(found, part)
    if not isinstance(found, type):
        raise CustomClassError(f"import_path {import_path}: a class is wanted, got {type(found).__name__}")
    return found
