"""Play an environment of verifiers, by name: the package's own loop runs against the address of the policy.

In: a row's seed at `reset`, the number of a row of the environment; then address and key of the policy. Out: the reward
of the environment's own rubric, with its parts as the remark. A taskset of version 1 is played by `Env.run_episode`,
with its harness in a separate process; one of `load_environment` by `run_rollout`. Environments that execute or
evaluate the policy's text on this machine, or need a container, are refused by name at the start. An error in the
environment's own part, such as its rubric, raises Unmeasured.
Source: verifiers 0.4.0, `verifiers/v1`, and 0.1.14, `verifiers/envs/environment.py`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from typing import Any, Dict

from agents.environments.child.imports import find_beside_the_start
from agents.environments.child.own_loop.verifiers.episodes import package_of
from agents.environments.child.own_loop.verifiers.loaded import LoadedAgent, LoadedEnvironment
from agents.environments.child.own_loop.verifiers.tasksets import Taskset, TasksetAgent
from agents.environments.child.prepared import PreparedKind

# Names of functions that pass text to sympy's parser, which evaluates it.
EVALUATES = ("math_verify", "MathRubric", "verify_boxed_math_answer", "parse_expr", "sympify")


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the environment and load its rows. Raises LookupError for unplayable ones, and import errors."""
    find_beside_the_start()
    if importlib.util.find_spec("verifiers") is None:
        raise LookupError(f"{sys.executable} has no verifiers: `python` names an interpreter that has it")
    package = importlib.import_module("verifiers")
    name = package_of(section["id"])
    plays_old = hasattr(package, "load_environment")  # and no taskset: no version plays both
    is_builtin = (
        not plays_old and importlib.util.find_spec(f"verifiers.v1.tasksets.{name.lower()}") is not None
    )
    if not is_builtin and importlib.util.find_spec(name) is None:
        raise LookupError(f"there is no environment {section['id']}: {sys.executable} has no package {name}")
    is_old = not is_builtin and hasattr(importlib.import_module(name), "load_environment")
    _refuse_evaluation(section["id"], name)
    if is_old != plays_old:
        what, other = ("has", "0.1.14") if is_old else ("has no", "0.4.0 or newer, for tasksets,")
        version = getattr(package, "__version__", "of this interpreter")
        raise LookupError(
            f"{section['id']} {what} load_environment; verifiers {version} can't play it, {other} can"
        )
    if is_old:
        return PreparedKind(
            functools.partial(LoadedAgent, LoadedEnvironment(section, package)), is_async=True
        )
    return PreparedKind(functools.partial(TasksetAgent, Taskset(section)), is_async=True)


def _refuse_evaluation(environment: str, package: str) -> None:
    """Raise LookupError where an environment's own modules name functions that evaluate the policy's text here."""
    modules = [one for name, one in sys.modules.items() if name == package or name.startswith(f"{package}.")]
    for module in modules:
        try:
            source = inspect.getsource(module)
        except (OSError, TypeError):
            continue  # it has none
        if found := [word for word in EVALUATES if word in source]:
            raise LookupError(
                f"{environment}: {module.__name__} uses {found[0]}, which evaluates what the policy writes by sympy's "
                "parser, outside of any walls: score its rows with `scorer: {type: math}` instead"
            )
