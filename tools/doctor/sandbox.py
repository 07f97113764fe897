"""Check the sandbox: which walls work, why another kind does not, and which languages run inside.

In: the results of processes (`tools.doctor.probe`, which really tries to escape), and the run, if one is given. Out:
findings. A missing sandbox is a problem where the run's tasks need it, else a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.run import Run
from sandbox.choice import REMEDY
from sandbox.local import toolchain
from sandbox.packages import REMEDY as INSTALL
from sandbox.packages import absent
from tools.doctor.findings import Check, CheckFinding
from tools.doctor.questions import ProbeAnswer, ProbeQuestion

AREA = "sandbox"
WALLS = ("bubblewrap", "landlock")  # in the order of preference
NEEDING = frozenset({"code", "swe", "simulation", "gym"})  # scorers that run programs
LANGUAGES = {"python": ("python3", "python3"), "cpp": ("g++", "g++"), "javascript": ("node", "nodejs")}


def questions(run: Run | None) -> list[ProbeQuestion]:
    """Return the question about this machine's walls, or about the run's servers."""
    servers = (
        run.scorers.sandbox_urls if run is not None and run.scorers.sandbox in {"auto", "fusion"} else ()
    )
    return [ProbeQuestion(name="sandbox", words=servers)]


def check_sandbox(answer: ProbeAnswer, run: Run | None) -> Iterator[CheckFinding]:
    """Yield all findings about the sandbox."""
    is_needed = run is not None and needs_sandbox(run)
    asked = run.scorers.sandbox if run is not None else "auto"
    if asked == "unsafe":
        yield Check(AREA, "walls").note(
            "scorers.sandbox=unsafe: what a model writes runs here without any protection",
            do="scorers.sandbox=auto",
        )
    elif asked == "fusion" or (run is not None and asked == "auto" and run.scorers.sandbox_urls):
        yield servers(answer, run.scorers.sandbox_urls if run is not None else ())
    elif answer.trouble:
        yield _by_need(Check(AREA, "walls"), f"not tried: {answer.trouble}", is_needed=is_needed, do=REMEDY)
    else:
        yield from walls(answer, asked, is_needed=is_needed)


def needs_sandbox(run: Run) -> bool:
    """Return whether any scorer of the run runs programs."""
    return any(
        scorer.type in NEEDING
        for task in run.scorers.tasks.values()
        for scorer in (task.scorer, *(part.scorer for part in task.extra_scorers.values()))
    )


def walls(answer: ProbeAnswer, asked: str, *, is_needed: bool) -> Iterator[CheckFinding]:
    """Yield which walls work, and the languages inside the used ones."""
    holding = [name for name in WALLS if "version" in answer.facts[name]]
    used = asked if asked in holding else next(iter(holding), "") if asked == "auto" else ""
    for name in WALLS:
        check, facts = Check(AREA, name), answer.facts[name]
        abi = f", version {answer.facts['landlock_abi']} of the kernel's" if name == "landlock" else ""
        if name in holding:
            yield check.ok(
                f"holds{abi}: a program that tries to get out does not"
                f"{', and this one is used' if name == used else ''}"
            )
        elif not used:
            yield _by_need(check, facts["reason"], is_needed=is_needed, do=REMEDY)
        else:
            yield check.note(f"{facts['reason']}; {used} is used instead")
    if used:
        yield from languages(answer.facts[used])
        yield from packages(answer.facts[used])


def languages(facts: dict[str, object]) -> Iterator[CheckFinding]:
    """Yield which languages run inside."""
    there = facts["languages"]
    pairs = (word.partition("=") for word in str(facts["version"]).split())
    versions = {name.replace("python", "python3"): number for name, _, number in pairs}
    for language, (program, package) in LANGUAGES.items():
        check = Check(AREA, language)
        if isinstance(there, list) and language in there:
            yield check.ok(f"{program} {versions.get(program, '')} runs inside")
        else:
            yield check.note(
                f"{program} is not in {toolchain.PATH}, or does not run inside: rows in that language "
                "can't be scored here",
                do=f"sudo apt-get install {package}",
            )


def packages(facts: dict[str, object]) -> Iterator[CheckFinding]:
    """Yield which packages programs can't import, though they should."""
    if lacking := absent(str(facts["version"])):
        yield Check(AREA, "packages").note(
            f"{', '.join(lacking)} can't be imported inside: an answer that imports one of them and is not right "
            "has no score here",
            do=INSTALL,
        )


def servers(answer: ProbeAnswer, urls: tuple[str, ...]) -> CheckFinding:
    """Check that the servers with SandboxFusion's API answer."""
    check = Check(AREA, "servers")
    if not urls:
        return check.problem(
            "scorers.sandbox=fusion, and scorers.sandbox_urls names none",
            do="scorers.sandbox_urls='[http://HOST:8080]'",
        )
    if answer.trouble:
        return check.problem(
            f"{', '.join(urls)}: {answer.trouble}",
            do=f"curl {urls[0]}/v1/ping; on that machine: python -m scorers sandbox --port 8080",
        )
    return check.ok(f"{', '.join(urls)} run programs: {answer.facts['version']}")


def _by_need(check: Check, seen: str, *, is_needed: bool, do: str) -> CheckFinding:
    return (
        check.problem(seen, do=do)
        if is_needed
        else check.note(
            f"{seen} (only scorers that run programs need it: {', '.join(sorted(NEEDING))})", do=do
        )
    )
