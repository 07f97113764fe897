"""Build the commands of a run on one machine, the same that other launchers use, one process each.

In: the configuration and how it was given. Out: a `Command` for the judge that the run serves, if there is one, the
learner, each generator and the scorers, with the GPUs of each. `millrace up` starts them; `--dry-run` shows them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.fork_server.client import ForkServer
from config.endpoint import ServeConfig
from config.explanations import ConfigError
from config.generators import HfEngineConfig, ScriptedEngineConfig, VllmEngineConfig
from config.gpus import VARIABLE, sees_gpu, visible
from config.run import Run
from tools.up.first_imports import TORCH
from tools.up.served_judge import ServedJudge, served_judge

LEARNER = ("learner",)

# Imported once for the learner and the generators, which are then forked (`broker.fork_server`).
OF_LEARNER = (*TORCH, "learner.session", "learner.training.engines.deepspeed", "learner.training.build")
OF_HF = (*TORCH, "generators.worker", "generators.engines.hf.engine", "generators.engines.hf.sampling")
OF_VLLM = (*TORCH, "generators.worker", "generators.engines.vllm.engine", "generators.engines.hf.model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command of one process of a run, and its GPUs."""

    role: str  # learner, generator-0, scorers-0: also the name of its log
    args: tuple[str, ...]
    gpus: str = ""  # the process's GPUs, in the form of `CUDA_VISIBLE_DEVICES`; empty: all of them
    ends_the_run: bool = (
        False  # the end of the process ends the run; other processes are restarted when they die
    )
    again: tuple[str, ...] = ()  # arguments added when the process is restarted
    variables: Mapping[str, str] = field(default_factory=dict)  # of its environment, including secrets
    health_url: str = ""  # of a server: later processes of the plan start when it answers
    start_timeout_s: float = 0.0  # longest time until a server answers
    silence_s: float = 0.0  # longest silence afterwards
    imports: tuple[
        str, ...
    ] = ()  # a fork of a process that has imported these will do; (): start from nothing

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables to add to the parent's.

        Output is unbuffered, so that lines are seen as they come. The current folder is not first on Python's path: a
        user's `config.py` must not replace a package of this program (`config.custom.import_own` finds the user's
        modules).
        """
        return {
            "PYTHONUNBUFFERED": "1",
            "PYTHONSAFEPATH": "1",
            **({VARIABLE: self.gpus} if self.gpus else {}),
            **self.variables,
        }

    def __str__(self) -> str:
        visible = [f"{VARIABLE}={self.gpus}"] if self.gpus else []
        return " ".join([*visible, shlex.join(self.args)])


def commands(run: Run, words: Sequence[str], *, owner: Sequence[str] = LEARNER) -> list[Command]:
    """Return the commands of `run`, which was loaded from `words` (`--config FILE key=value ...`).

    Args:
        owner: the module of the process that owns the run, with arguments before `words`.
    Raises:
        ConfigError: an engine needs more GPUs than there are, or a scheduler gave fewer than are named.
    """
    learner = Command(
        role="learner",
        args=(sys.executable, "-m", *owner, *words),
        gpus=visible("learner.gpus", run.learner.gpus),
        ends_the_run=True,  # when it is restarted, the run has begun because of itself
        again=("learner.resume=auto",) if run.learner.resume == "never" else (),
        imports=imports_of_learner(run),
    )
    generators = [
        Command(
            role=f"generator-{index}",
            args=(sys.executable, "-m", "generators", "--run", run.name),
            gpus=visible("generators.gpus", gpus_of_generator(run, index)),
            imports=imports_of_generator(run),
        )
        for index in range(run.generators.count)
    ]
    serve = run.judge.serve
    judge = None if serve is None else served_judge(serve, on_cpu=not sees_gpu())
    scorers = Command(
        role="scorers-0",
        args=(sys.executable, "-m", "scorers", "--run", run.name),
        variables={} if judge is None else judge.for_scorers,
    )
    agents = [
        Command(role=f"agent-{index}", args=(sys.executable, "-m", "agents", "--run", run.name))
        for index in range(run.agents.count if run.has_agents else 0)
    ]
    roles = [learner, *generators, *agents, scorers]
    return roles if serve is None or judge is None else [judge_command(serve, judge), *roles]


def imports_of_learner(run: Run) -> tuple[str, ...]:
    """Return the learner's modules: none where it has ranks, which start themselves, or sees a GPU.

    Settings of torch for a GPU are each role's own, and are read when torch is imported.
    """
    return OF_LEARNER if run.learner.ranks == 1 and not sees_gpu() else ()


def imports_of_generator(run: Run) -> tuple[str, ...]:
    """Return the modules of a generator. vLLM's own are not among them: they change torch for the learner, too."""
    if sees_gpu():
        return ()
    match run.generators.engine:
        case HfEngineConfig():
            return OF_HF
        case VllmEngineConfig():
            return OF_VLLM
        case ScriptedEngineConfig():
            return ()


def complete_fork_server(server: ForkServer, run: Run) -> None:
    """Tell a server that has begun what the roles of `run` import, or close it where none of them will be forked."""
    server.complete([*dict.fromkeys((*imports_of_learner(run), *imports_of_generator(run)))])


def imports_of(plan: Sequence[Command]) -> list[str]:
    """Return what the commands of `plan` import, each module once."""
    return [*dict.fromkeys(module for command in plan for module in command.imports)]


def judge_command(serve: ServeConfig, judge: ServedJudge) -> Command:
    """Return the command of a served judge. It comes first in a plan: a run that can't be scored samples nothing."""
    return Command(
        role="judge",
        args=judge.args,
        gpus=judge.gpus,
        variables=judge.variables,
        health_url=judge.health_url,
        start_timeout_s=serve.start_timeout_s,
        silence_s=serve.silence_s,
    )


def gpus_of_generator(run: Run, index: int) -> tuple[int, ...]:
    """Take `tensor_parallel` GPUs of the list, cyclically; generators share GPUs where the list is too short."""
    gpus = run.generators.gpus
    if not gpus:
        return ()
    engine = run.generators.engine
    width = engine.tensor_parallel if isinstance(engine, VllmEngineConfig) else 1
    if width > len(gpus):
        raise ConfigError(
            f"generators.gpus names {len(gpus)} GPUs, and generators.engine.tensor_parallel={width} "
            "needs as many for one generator"
        )
    return tuple(gpus[(index * width + k) % len(gpus)] for k in range(width))


def judge_gpus(run: Run) -> tuple[int, ...]:
    """Return the GPUs of the run's served judge: those it names, else the first; none where none is served."""
    serve = run.judge.serve
    if serve is None:
        return ()
    return serve.gpus[: serve.tensor_parallel] or tuple(range(serve.tensor_parallel))
