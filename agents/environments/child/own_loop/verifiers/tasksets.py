"""Play a taskset of verifiers' version 1: `Env.run_episode`, with its harness in a separate process.

In, out and failures: see `agents.environments.child.own_loop.verifiers.kind`.
Source: verifiers 0.4.0, `verifiers/v1/env.py`, `agent.py` and `utils/loaders.py`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Dict, List

from agents.environments.child.own_loop.function import AgentFailed, Unmeasured
from agents.environments.child.own_loop.verifiers.episodes import MODEL, PolicyKey, Rows, finish

# Types of errors that the policy can't cause.
NOT_THE_POLICYS = {"TaskError", "SandboxError", "ToolsetError", "InterceptionError", "TunnelError"}
TALKS = "null"  # the harness that calls a taskset's tools and executes nothing itself


class Taskset:
    """A taskset of version 1, with its agents."""

    def __init__(self, section: Dict[str, Any]) -> None:
        self.vf = importlib.import_module("verifiers.v1")
        self._id = section["id"]
        agents = self._agents(section)
        given = {"taskset": {**section["options"], "id": self._id}, **agents}
        self.config = self.vf.resolve_env_config(given)
        self.policys = self._policys(list(agents))
        environment = self.vf.load_environment(self.config)
        self._refuse(environment.taskset)
        tasks: Any = environment.taskset
        if not tasks.bounded:
            tasks = tasks.take(section["most_rows"])
        self.rows = Rows(list(tasks), (), section)
        _start_by_own_interpreter()

    def _agents(self, section: Dict[str, Any]) -> Dict[str, Any]:
        """Return the configuration of each agent: on this machine, and by default one that only calls tools."""
        declared = self.vf.env_config_type(self._id).model_fields.items()
        names = [name for name, field in declared if isinstance(field.default, self.vf.AgentConfig)]
        if strange := [name for name in section["agents"] if name not in names]:
            raise LookupError(f"{self._id} has no agent {', '.join(strange)}; it has {', '.join(names)}")
        own: Dict[str, Any] = {"runtime": {"type": "subprocess"}, "max_turns": section["max_turns"]}
        if self.vf.default_harness_id(self._id) == "bash":  # it has none of its own
            own["harness"] = {"id": TALKS}
        return {name: {**own, **section["agents"].get(name, {})} for name in names}

    def _policys(self, names: List[str]) -> str:
        """Return the name of the single agent that the policy plays."""
        seats = [(name, getattr(self.config, name)) for name in names]
        free = [name for name, seat in seats if seat.model is None and seat.client is None]
        if len(free) != 1:
            raise LookupError(
                f"the policy would be {' and '.join(free) or 'no agent'} of {self._id}, which has {', '.join(names)}: "
                "in `agents` give all but one of them a model and a client"
            )
        return free[0]

    def _refuse(self, taskset: Any) -> None:
        """Raise LookupError where an agent would execute on this machine, or needs a container."""
        tasks = type(taskset).task_type()
        for name, harness_config in self.config.agent_harnesses().items():
            harness = self.vf.load_harness(harness_config)
            if getattr(self.config, name).runtime.type != "subprocess":
                continue  # the container is configured
            for needs, what in (
                (harness.EXECUTES_CODE, "executes what the policy writes, and would do so on this machine"),
                (harness.NEEDS_CONTAINER, "needs a container"),
            ):
                if needs:
                    raise LookupError(f"{self._id}: the harness {harness_config.id} of {name} {what}")
        if tasks.NEEDS_CONTAINER:
            raise LookupError(f"{self._id}: {tasks.__name__} needs a container")


class TasksetAgent:
    """A task of a taskset while its episode is played."""

    def __init__(self, taskset: Taskset) -> None:
        self._taskset, self._vf = taskset, taskset.vf

    def reset(self, row: Any, seed: int) -> None:  # noqa: ARG002
        """Take the seed's task. Raises LookupError for one that needs a container."""
        self._task = self._taskset.rows.of(seed)
        image = self._task.data.image
        if (
            image is not None
            and getattr(self._taskset.config, self._taskset.policys).runtime.type == "subprocess"
        ):
            raise LookupError(f"task {self._task.data.idx} needs a container, of the image {image}")

    async def run(self, base_url: str, key: str) -> Dict[str, Any]:
        """Play it to its end. Raises AgentFailed and Unmeasured."""
        environment = self._vf.load_environment(self._taskset.config)
        with PolicyKey(key) as variable:
            client = self._vf.EvalClientConfig(base_url=base_url + "/v1", api_key_var=variable)
            context = self._vf.ModelContext(model=MODEL, client=client)
            async with environment.serving():
                episode = await environment.run_episode(self._task, context)
        traces = [trace for trace in episode.traces if trace.agent.name == self._taskset.policys]
        if not episode.ok:
            errors = [*episode.errors, *(one for trace in episode.traces for one in trace.errors)]
            kind, text = (errors[0].type, errors[0].message) if errors else ("error", "it does not say which")
            raise (Unmeasured if kind in NOT_THE_POLICYS else AgentFailed)(f"{kind}: {text}")
        if len(traces) != 1:
            raise LookupError(
                f"the policy played {len(traces)} times in one episode, and is given one reward"
            )
        (trace,) = traces
        parts = {name: one.value for name, one in trace.rewards.items() if one is not None}
        return finish(trace.reward if parts else None, parts, trace.stop_condition or "")


def _start_by_own_interpreter() -> None:
    """Let this interpreter, which has the dependencies, run the program: verifiers would use uv."""
    source = importlib.import_module("verifiers.v1.harnesses.utils.launch").CHAT_PROGRAM_SOURCE
    runtime: Any = importlib.import_module("verifiers.v1.runtimes.subprocess").SubprocessRuntime
    asks_uv = runtime.prepare_uv_script

    async def prepare_uv_script(
        self: Any, script: Any, env: Any = None, *, activate: bool = True
    ) -> List[str]:
        if script != source:
            found: List[str] = await asks_uv(self, script, env, activate=activate)
            return found
        await self.write("chat_program.py", source.encode())
        return [sys.executable, str(self.workdir / "chat_program.py")]

    runtime.prepare_uv_script = prepare_uv_script
