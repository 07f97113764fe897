"""Play an environment of `load_environment`: SingleTurnEnv, MultiTurnEnv, ToolEnv, and their subclasses.

In, out and failures: see `agents.environments.child.own_loop.verifiers.kind`. The rubrics of verifiers turn an error in
a reward function into a reward of 0, and log it: here it is an error.
Source: verifiers 0.1.14, `verifiers/envs/environment.py` and `verifiers/rubrics`.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import inspect
from typing import Any, Callable, Dict, Iterator, List

from agents.environments.child.own_loop.function import AgentFailed, Unmeasured
from agents.environments.child.own_loop.verifiers.episodes import MODEL, PolicyKey, Rows, finish, package_of

ELSEWHERE = (
    "SandboxEnv",
    "CliAgentEnv",
    "BrowserEnv",
)  # classes whose programs run in sandboxes of a service
CLIENT_S = 1e6  # of the client, whose calls may queue: the worker has the deadline
# For the reward functions of an episode.
FAILED: contextvars.ContextVar[List[str]] = contextvars.ContextVar("failed")


class LoadedEnvironment:
    """An environment, with its rows."""

    def __init__(self, section: Dict[str, Any], package: Any) -> None:
        name = section["id"]
        self.made = package.load_environment(package_of(name), **section["options"])
        classes = {one.__name__ for one in type(self.made).__mro__}
        if needed := [one for one in ELSEWHERE if one in classes]:
            raise LookupError(f"{name} is a {needed[0]}, which needs sandboxes of a service")
        if self.made.rubric.has_group_rewards:
            raise LookupError(f"{name} rewards a group as a whole; an episode has a reward of its own here")
        if (most := getattr(self.made, "max_turns", None)) is not None:
            self.made.max_turns = section["max_turns"] if most < 0 else min(most, section["max_turns"])
        for rubric in _rubrics(self.made.rubric):
            rubric.funcs = [_watched(one) for one in rubric.funcs]
        held_out = None if section["held_out_rows"] else self.made.build_eval_dataset()
        self.rows = Rows(self.made.get_dataset().to_list(), held_out.to_list() if held_out else (), section)
        types = importlib.import_module("verifiers.types")
        self.infrastructure = importlib.import_module("verifiers.errors").InfraError
        self.client_config = functools.partial(types.ClientConfig, timeout=CLIENT_S)
        self.resolve_client = importlib.import_module("verifiers.clients").resolve_client


class LoadedAgent:
    """A row of the environment while its episode is played."""

    def __init__(self, environment: LoadedEnvironment) -> None:
        self._environment = environment

    def reset(self, row: Any, seed: int) -> None:  # noqa: ARG002
        """Take the seed's row. Raises LookupError."""
        self._row = self._environment.rows.of(seed)

    async def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Play it to its end. Raises AgentFailed and Unmeasured."""
        made, failed = self._environment.made, []  # type: Any, List[str]
        FAILED.set(failed)
        with PolicyKey(key) as variable:
            config = self._environment.client_config(api_base_url=base_url + "/v1", api_key_var=variable)
            client = self._environment.resolve_client(config)
            try:
                state = await made.rollout(dict(self._row), client, MODEL, {})
                if (error := state.get("error")) is not None:
                    kind = Unmeasured if isinstance(error, self._environment.infrastructure) else AgentFailed
                    raise kind(f"{type(error).__name__}: {error}") from error
                await made.rubric.score_rollout(state)
                await made.rubric.cleanup(state)
            finally:
                await client.close()
        if failed:
            raise Unmeasured(failed[0])
        return finish(state["reward"], state["metrics"], state.get("stop_condition") or "")


def _rubrics(rubric: Any) -> Iterator[Any]:
    """Yield a rubric and its parts."""
    yield rubric
    for one in getattr(rubric, "rubrics", ()):
        yield from _rubrics(one)


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reward function that records its exceptions."""

    @functools.wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        try:
            found = function(*args, **kwargs)
            return await found if inspect.isawaitable(found) else found
        except Exception as error:
            FAILED.get().append(
                f"{getattr(function, '__name__', 'a reward')}: {type(error).__name__}: {error}"
            )
            raise

    return called
