"""Check quickly, without heavy libraries, what would fail at every start here.

In: a resolved run, the arguments it was loaded from, and this machine. Out: findings. `millrace up` and `chaos` make
these checks before they start anything, and refuse a run with a problem; `millrace doctor` includes them. A user's own
scorer is imported in a separate process, since its imports may be heavy or end the process. So are environments, and
the model's tokenizer, whose template must show their tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.connection import check_url
from config.explanations import ConfigError
from config.generators import VllmEngineConfig
from config.gpus import sees_gpu
from config.learner.training import DeepSpeedConfig
from config.run import Run
from learner.launch.preflight import check_places
from tools.doctor.findings import Check, CheckFinding, Level
from tools.doctor.gateway import check_gateway
from tools.doctor.libraries import kv_cache, version_of
from tools.doctor.probe import installed
from tools.doctor.questions import NO_ANSWER, ProbeAnswer, ProbeQuestion, ask
from tools.doctor.run import own_scorers, template

AREA = "run"
ENGINE, GPUS, SCORERS, ENVIRONMENTS, FOLDER = (
    Check(AREA, name) for name in ("engine", "GPUs", "scorers", "environments", "runs_dir")
)
IMPORT_S = 60.0  # for the import of all own scorers; slower ones are left to the run


@dataclass(frozen=True, slots=True)
class CheckedMachine:
    """The light checks' view of this machine; tests replace it."""

    has_gpu: bool = field(default_factory=sees_gpu)
    has: Callable[[str], str] = installed  # returns a distribution's version, or ""


def check_light(run: Run, words: Sequence[str], machine: CheckedMachine | None = None) -> None:
    """Refuse a run that would fail at every start here.

    Raises:
        ConfigError: with a line for each problem.
        WrongBroker: REDIS_URL is invalid.
    """
    check_places(run)
    if run.broker.url is not None:
        check_url(run.broker.url.get_secret_value())
    findings = [*check_engine(run, machine or CheckedMachine()), *check_folder(run), *check_gateway(run)]
    for question, answer in ask(own_questions(run, words), deadline_s=IMPORT_S):
        findings += OWN[question.name](answer, run)
    if problems := [found for found in findings if found.level is Level.PROBLEM]:
        raise ConfigError("\n".join(f"{found.seen}\n  -> {found.do}" for found in problems))


def check_engine(run: Run, machine: CheckedMachine) -> Iterator[CheckFinding]:
    """Check that the engine and the learner can start on this machine's devices, with the installed libraries."""
    engine = run.generators.engine
    needed = {
        "vllm": isinstance(engine, VllmEngineConfig) or run.judge.serve is not None,
        "transformers": True,
        "torch": True,
        "deepspeed": isinstance(run.learner.backend, DeepSpeedConfig),
    }
    lacking = [name for name, is_needed in needed.items() if is_needed and not version_of(name, machine.has)]
    if lacking:
        extra = "gpu" if machine.has_gpu else "cpu"
        yield ENGINE.problem(
            f"{', '.join(lacking)}: not installed, and the engine {engine.type}, the learner or the judge needs it",
            do=f"make setup, or pip install 'millrace[{extra if 'vllm' in lacking else 'model'}]'",
        )
    elif not machine.has_gpu:
        yield from kv_cache(run)
    if machine.has_gpu:
        return
    serve = run.judge.serve
    wants = {
        "learner.device=cuda": run.learner.device == "cuda",
        f"learner.gpus={list(run.learner.gpus)}": bool(run.learner.gpus),
        f"generators.gpus={list(run.generators.gpus)}": bool(run.generators.gpus),
        f"judge.serve.gpus={list(serve.gpus) if serve else []}": serve is not None and bool(serve.gpus),
    }
    for key in (key for key, is_wanted in wants.items() if is_wanted):
        yield GPUS.problem(
            f"{key}: no GPU is seen on this machine",
            do="learner.device=auto learner.gpus='[]' generators.gpus='[]' judge.serve.gpus='[]'"
            if serve
            else "learner.device=auto learner.gpus='[]' generators.gpus='[]'",
        )


def check_folder(run: Run) -> Iterator[CheckFinding]:
    """Find a folder of runs in which no folder can be made."""
    place = run.folder.absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "can't be written" if there.is_dir() else "is no folder"
        yield FOLDER.problem(
            f"runs_dir={run.runs_dir}: {there} {why}", do="runs_dir=FOLDER names another place"
        )


def own_questions(run: Run, words: Sequence[str]) -> list[ProbeQuestion]:
    """Return the questions whether the run's own scorers and environments can be imported; none for none."""
    wanted = {"scorers": bool(own_scorers(run)), "environments": run.has_agents}
    return [ProbeQuestion(name=name, words=words) for name, is_wanted in wanted.items() if is_wanted]


def check_scorers(answer: ProbeAnswer, run: Run) -> Iterator[CheckFinding]:
    """Check that the run's own scorers can be imported and built here."""
    if answer.trouble.startswith(NO_ANSWER):
        yield SCORERS.note(f"the import of {_paths(run)} gives {answer.trouble}")
    elif answer.trouble:
        yield SCORERS.problem(f"{_paths(run)} can't be imported: {answer.trouble}", do="mend what it says")
    elif failed := answer.facts["failed"]:
        yield SCORERS.problem(
            "\n".join(f"{key}: {why}" for key, why in failed.items()),
            do="start in the folder of that module, or put the folder into PYTHONPATH; docs/scorers.md has examples",
        )
    else:
        yield SCORERS.ok(f"{_paths(run)} can be imported")


def check_environments(answer: ProbeAnswer, run: Run) -> Iterator[CheckFinding]:
    """Check that each task's environment can be imported here and starts in a child, and what its policy sees."""
    tasks = ", ".join(filter(run.plays, run.scorers.tasks))
    if answer.trouble.startswith(NO_ANSWER):
        yield ENVIRONMENTS.note(f"the start of the environments of {tasks} gives {answer.trouble}")
        return
    if answer.trouble:
        yield ENVIRONMENTS.problem(f"no environment can be started: {answer.trouble}", do="mend what it says")
        return
    if failed := answer.facts["failed"]:
        yield ENVIRONMENTS.problem(
            "\n".join(f"scorers.tasks.{task}.environment: {why}" for task, why in failed.items()),
            do="mend what it says; modules are found in the folder of the start, and in PYTHONPATH",
        )
    elif refused := answer.facts["refused"]:
        yield ENVIRONMENTS.note(
            f"all start; of an empty row {', '.join(refused)} make no episode, which their own rows may do"
        )
    else:
        yield ENVIRONMENTS.ok(f"those of {tasks} start, and begin an episode")
    if answer.facts["tools"]:
        yield template(answer, run)


def _paths(run: Run) -> str:
    return ", ".join(dict.fromkeys(section.import_path for section in own_scorers(run).values()))


# The check of each answer to `own_questions`.
OWN: Mapping[str, Callable[[ProbeAnswer, Run], Iterator[CheckFinding]]] = {
    "scorers": check_scorers,
    "environments": check_environments,
}
