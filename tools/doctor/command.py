"""`millrace doctor [CONFIG]`: find what prevents a run on this machine, and say what to do about it.

In: this machine, REDIS_URL, and optionally a configuration. Out: findings, area by area, as they are made. Exit code 0,
or 1 where a finding is a problem. The doctor changes nothing, and every wait has a deadline: checks that import heavy
libraries or run programs are separate processes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from config.loading import load_run, redis_url
from config.logs import mask
from config.run import Run
from tools.arguments import UsageError, add_json, add_layers, layer_words
from tools.doctor import libraries as doctor_libraries
from tools.doctor import light, sandbox
from tools.doctor import run as doctor_run
from tools.doctor.findings import CheckFinding, Level, lines_of
from tools.doctor.gateway import check_gateway
from tools.doctor.machine import check_machine
from tools.doctor.questions import ProbeAnswer, ask
from tools.doctor.redis import check_private, check_redis

EPILOG = (
    "Redis, this machine, its libraries and its sandbox; with a configuration, against what that run needs. "
    "Each finding is ok, a note or a problem, with what to do. Exit code: 0 no problem; 1 there is one; "
    "2 a configuration that can't be used."
)

# Questions about a configuration, and the checks of their answers.
ONE: Mapping[str, Callable[[ProbeAnswer, Run], CheckFinding]] = {
    "tokenizer": doctor_run.tokenizer,
    "data": doctor_run.data,
}
SEVERAL: Mapping[str, Callable[[ProbeAnswer, Run], Iterator[CheckFinding]]] = {
    **light.OWN,
    "model": doctor_run.model_files,
    "engine": doctor_run.settings,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace doctor`."""
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="YAML file of a run")
    parser.add_argument("values", nargs="*", metavar="key=value", help="settings over the file's")
    parser.add_argument("--config", dest="file", metavar="FILE", help="the same")
    add_layers(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Examine the machine, and print the findings. Raises ConfigError for an invalid configuration."""
    plain = [options.config] if options.config else []
    file = options.file or (plain.pop() if plain else None)
    if file is None and (over := [*options.values, *options.layer]):
        raise UsageError(f"{over[0]!r} sets keys of a configuration: give one too")
    given = ["--config", file, *layer_words(options), *plain, *options.values] if file else []
    wanted = load_run(given) if given else None
    findings: list[CheckFinding] = []
    for finding in examine(wanted, given):
        if not options.json:
            _print(finding, findings)
        findings.append(finding)
    problems, notes = (
        sum(finding.level is level for finding in findings) for level in (Level.PROBLEM, Level.NOTE)
    )
    if options.json:
        sys.stdout.write(
            mask(
                json.dumps(
                    {
                        "findings": [asdict(finding) for finding in findings],
                        "problems": problems,
                        "notes": notes,
                    }
                )
                + "\n"
            )
        )
    else:
        sys.stdout.write(f"{_count(problems, 'problem')}, {_count(notes, 'note')}\n")
    return 1 if problems else 0


def examine(run: Run | None, words: Sequence[str]) -> Iterator[CheckFinding]:
    """Yield all findings, quick ones first.

    Args:
        words: arguments from which `run` was loaded.
    """
    url = redis_url()
    yield from check_private() if url is None else check_redis(url.get_secret_value(), run)
    yield from check_machine(run)
    if run is not None:
        yield from doctor_run.check_paths(run)
        yield doctor_run.check_groups(run)
        yield doctor_run.check_deadlines(run)
        yield from doctor_run.check_endpoints(run)
        yield from check_gateway(run)
    wanted = [
        *([*light.own_questions(run, words), *doctor_run.questions(words)] if run is not None else []),
        *sandbox.questions(run),
        *doctor_libraries.questions(),
    ]
    libraries: dict[str, ProbeAnswer] = {}
    for question, answer in ask(wanted):
        name = question.name
        if name == "sandbox":
            yield from sandbox.check_sandbox(answer, run)
        elif run is not None and name in ONE:
            yield ONE[name](answer, run)
        elif run is not None and name in SEVERAL:
            yield from SEVERAL[name](answer, run)
        else:
            libraries[name] = answer
    yield from doctor_libraries.check_libraries(libraries, run)


def _print(finding: CheckFinding, before: Sequence[CheckFinding]) -> None:
    """Print a finding, after its area's name if it is the first of that area."""
    lines = list(lines_of([finding]))
    is_first = not before or before[-1].area != finding.area
    sys.stdout.write(mask("\n".join(lines if is_first else lines[1:])) + "\n")
    sys.stdout.flush()


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
