"""Commands of README, CONTRIBUTING, SECURITY and docs/*.md: each is one, with options and values that there are.

Here every command of a fenced block is *parsed*, by the program's own parser and by the configuration's; files that it
names have to exist. `test_what_is_cheap_is_run` runs those of a small finished run for real. `make prove-pages` types
all as they stand, but those that are the part `pages` of `make prove-compose` or of the tests that
`benchmarks.pages.pages.ELSEWHERE` names. What needs a GPU or several machines says "not yet run" where it stands.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.pages.pages import (
    Line,
    fences,
    lines,
    mentions,
    recipe_lines,
    recipe_settings,
    strays,
    unknown_languages,
)
from broker.connection import check_url
from config.explanations import ConfigError
from config.loading import load_run
from tests.conftest import ROOT
from tests.support.small_run import make_small_run
from tools.main import VERBS, main

pytestmark = [pytest.mark.process, pytest.mark.prove(after=5)]

RAN_HERE = frozenset({"runs", "audit", "journal", "trace", "redis-cli", "top"})
CONTROLS = {"pause": "pause", "drain": "drain", "resume": ""}  # and what the learner is asked for
# Files that a command names and a user has: their own.
THEIRS = {
    "run.yaml", "token.txt", "my_recipe.yaml", "my_scorer.py", "my_rows.jsonl", "rows.jsonl", "first.sh",
}  # fmt: skip
THEIRS |= {".env", "labelled.jsonl", "ca.pem", "fleet/ca.pem"}
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*(\.[a-z]+)?")  # CONFIG, RUN, FILE.jsonl
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = frozenset(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
SETTINGS = frozenset({"ARGS", "BUILD", "COMPOSE", "CONTAINERS", "ENGINE", "GPU", "JOBS", "SEED"})
COMPOSE_FILES = ("compose.yaml", "compose.gpu.yaml", "compose.redis-port.yaml", "compose.redis-tls.yaml")
COMPOSE_OPTIONS: dict[str, set[str]] = {
    "up": {"--build", "-d", "--exit-code-from", "--scale"},
    "down": {"-v"},
    "logs": {"-f"},
    **{verb: set() for verb in ("exec", "ps", "stop", "start", "pull", "build")},
}
in_the_checkout = pytest.mark.usefixtures("_in_the_checkout")


@pytest.fixture
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


class Parsed(Exception):
    """A parser has taken all words."""

    def __init__(self, found: argparse.Namespace) -> None:
        super().__init__()
        self.found = found


@contextlib.contextmanager
def stopped_after_parsing() -> Iterator[None]:
    """Programs go no further than their parser; that of `millrace` itself only finds the verb."""

    def wrap(method: Callable[..., Any], programs: Callable[[str], bool]) -> Callable[..., Any]:
        def parse(self: argparse.ArgumentParser, *given: Any, **named: Any) -> Any:
            found = method(self, *given, **named)
            if programs(self.prog):
                raise Parsed(found[0] if isinstance(found, tuple) else found)
            return found

        return parse

    kind = argparse.ArgumentParser
    with pytest.MonkeyPatch.context() as patch:
        for name, is_whole in (
            ("parse_args", lambda program: program != "millrace"),
            ("parse_intermixed_args", lambda program: program != "millrace"),
            ("parse_known_args", lambda program: program.endswith("scorers serve")),
        ):
            patch.setattr(kind, name, wrap(getattr(kind, name), is_whole))
        yield


def parsed(program: Callable[[list[str]], Any], words: list[str]) -> argparse.Namespace:
    with pytest.raises(Parsed) as parser, stopped_after_parsing():
        program(words)
    return parser.value.found


def is_there(name: str) -> bool:
    return (ROOT / name).exists() or name in THEIRS or PLACEHOLDER.fullmatch(name) is not None


def check_configuration(file: str | None, values: list[str]) -> None:
    """The file is one, and the values are settings over it: where it is a placeholder, over the demo's."""
    if file is not None:
        assert is_there(file), file
    real = ROOT / (file or "")
    base = real if real.is_file() else ROOT / "config" / "recipes" / "demo_cpu.yaml"
    given = [value for value in values if not value.startswith("scorers.tasks.")]  # of tasks that a user has
    load_run(["--config", str(base), *given])


def check_millrace(words: list[str]) -> None:
    found = vars(parsed(main, words))
    verb = words[0]
    takes_a_file = verb in {"up", "doctor", "plan", "chaos", "difficulty", "agent"}
    config = (takes_a_file and found.get("file")) or found.get("config")
    if takes_a_file or found.get("values"):
        check_configuration(config, list(found.get("values") or []))
    if verb in {"score", "judge-check"}:
        assert is_there(found["file"])


def check_python(words: list[str]) -> None:
    assert words[0] == "-m"
    name, *rest = words[1:]
    if name in {"learner", "learner.collect"}:
        files = [rest[place + 1] for place, word in enumerate(rest) if word == "--config"]
        assert all(map(is_there, files)), files
        values = [word for word in rest if not word.startswith("--") and word not in files]
        check_configuration(files[0], values)
    elif name == "broker.monitoring.health":
        assert rest[0] in importlib.import_module("broker.monitoring.health").PARTS
        assert len(rest) == 2
    else:
        assert name in {"generators", "agents", "scorers"}, name
        parsed(importlib.import_module(f"{name}.__main__").main, rest)


def check_make(words: list[str]) -> None:
    targets = [word for word in words if "=" not in word]
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    assert set(targets) <= TARGETS, targets
    assert settings.keys() <= SETTINGS, settings
    recipes = {"demo": "demo_cpu", "demo-agents": "demo_agents"}
    for target in recipes.keys() & targets:
        check_configuration(f"config/recipes/{recipes[target]}.yaml", settings.get("ARGS", "").split())


@cache
def compose_services() -> dict[str, Any]:
    stack = [yaml.safe_load((ROOT / file).read_text(encoding="utf-8")) for file in COMPOSE_FILES]
    return {name: service for file in reversed(stack) for name, service in file["services"].items()}


def check_docker(words: list[str]) -> None:
    assert words.pop(0) == "compose"
    services = compose_services()
    while words[0].startswith("-"):
        option, value = words.pop(0), words.pop(0)
        profiles = [name for one in services.values() for name in one.get("profiles", ())]
        assert option in {"-f", "--profile"}
        assert value in (COMPOSE_FILES if option == "-f" else profiles), value
    verb = words.pop(0)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        assert option in COMPOSE_OPTIONS[verb], option
        if option == "--scale":
            name, _, number = words.pop(0).partition("=")
            assert name in services
            assert number.isdecimal()
        elif option == "--exit-code-from":
            assert words.pop(0) in services
    if verb == "exec":
        assert words.pop(0) in services
        check_words(words)
    else:
        assert set(words) <= services.keys(), words


def kubernetes_objects() -> set[str]:
    """Return the names of the files' objects, each behind its kind as kubectl takes it."""
    found = set()
    for file in (ROOT / "deploy" / "kubernetes").rglob("*.yaml"):
        for one in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if one and "kind" in one and "name" in one.get("metadata", {}):
                kind = one["kind"].lower()
                found.add(f"{'deploy' if kind == 'deployment' else kind}/{one['metadata']['name']}")
    return found


def check_kubectl(words: list[str]) -> None:
    objects = kubernetes_objects()
    if words[0] == "-n":
        assert f"namespace/{words[1]}" in objects, words[1]
        words = words[2:]
    match words:
        case ["apply", "-k", folder]:
            assert (ROOT / folder / "kustomization.yaml").is_file(), folder
        case ["create", "namespace", name]:
            assert f"namespace/{name}" in objects, name
        case ["create", "secret", "generic", name, *values]:
            files = (ROOT / "deploy" / "kubernetes").rglob("*.yaml")
            text = "".join(file.read_text(encoding="utf-8") for file in files)
            for value in values:
                option, key, _ = value.split("=", 2)
                assert option == "--from-literal"
                assert f"secretKeyRef: {{name: {name}, key: {key}" in text, value
        case ["logs", "-f", name]:
            assert name in objects, name
        case ["exec", name, "--", *command]:
            assert name in objects, name
            check_words(command)
        case _:
            raise AssertionError(words)


def check_slurm(words: list[str]) -> None:
    """The names of the jobs are those that submit.sh gives."""
    (names,) = [word.strip(")").removeprefix("--name=") for word in words if word.startswith("--name=")]
    jobs = {f"first-{file.stem}" for file in (ROOT / "deploy/slurm").glob("*.sbatch")}
    assert set(names.split(",")) <= jobs


def check_submit(words: list[str]) -> None:
    assert is_there(words[0]), words[0]
    assert all((ROOT / "deploy" / "slurm" / f"{role}.sbatch").is_file() for role in words[1:]), words


def check_others(words: list[str]) -> None:
    """Words of the shell around ours."""
    program, *rest = words
    if program == "cp":
        sources = [word for word in rest[:-1] if not word.startswith("-")]
        assert all(map(is_there, sources)) or sources == ["runs/demo"], sources  # test_a_copy_of_a_folder ...
    elif program == "echo" and "|" in rest:
        server = rest[rest.index("|") + 1 :]
        assert server[0] == "/usr/bin/redis-server"
        assert is_there(server[1])
    elif program == "scripts/redis_tls.sh":
        assert is_there(program)
    elif program == "echo":
        variable = rest[0].partition("=")[0]
        assert f"#{variable}=" in (ROOT / ".env.example").read_text(encoding="utf-8")
        assert rest[1:] == [">>", ".env"]
    elif program == "export":
        name, _, value = rest[0].partition("=")
        if name == "PASSWORD":
            return  # test_the_password_of_a_secret_is_made
        assert name == "REDIS_URL"
        address, _, authority = value.partition("?ssl_ca_certs=")
        check_url(address)
        assert not authority or is_there(authority), authority
    elif program == "mkdir" and "&&" in rest:
        check_words(rest[rest.index("&&") + 1 :])


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "millrace": check_millrace, "python": check_python, "make": check_make, "docker": check_docker,
    "kubectl": check_kubectl, "squeue": check_slurm, "scancel": check_slurm,
    "deploy/slurm/submit.sh": check_submit,
}  # fmt: skip


def check_words(words: list[str]) -> None:
    if words[0] in CHECKS:
        CHECKS[words[0]](words[1:])
    else:
        check_others(words)


@in_the_checkout
@pytest.mark.parametrize("line", lines(), ids=str)
def test_every_command_is_taken_by_its_own_parser_and_names_what_there_is(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed, not run."""
    for name, value in line.variables.items():
        assert name == "REDIS_URL" or name.startswith("MILLRACE_"), name
        monkeypatch.setenv(name, value.replace("HOST", "127.0.0.1"))
    if line.words[0] == "curl":  # tests/scorers/reward_server/test_server.py types those of that page
        assert line.page.name == "reward_server.md"
    else:
        check_words(line.words)


def test_the_password_of_a_secret_is_made() -> None:
    (line,) = [line for line in lines() if line.command.startswith("export PASSWORD=")]
    script = f'{line.command}; printf %s "$PASSWORD"'
    said = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"[0-9a-f]{48}", said)


@in_the_checkout
@pytest.mark.parametrize("line", recipe_lines(), ids=str)
def test_every_command_in_a_recipe_is_one(line: Line) -> None:
    """Parsed, not run: `hf` asks the network, and the others are of the pages, or are named without their words."""
    program, *words = line.words
    if program == "hf":
        recipe = line.page.read_text(encoding="utf-8")
        assert words[:3] == ["download", "--repo-type", "dataset"]
        assert words[4] == "--local-dir"
        assert f'path: "{words[5]}/' in recipe
    elif program == "millrace" and not any(word.startswith("-") or "." in word for word in words):
        assert words[0] in VERBS, words
    else:
        check_words(line.words)


@in_the_checkout
@pytest.mark.parametrize("line", recipe_settings(), ids=lambda line: line.page.stem)
def test_the_settings_in_a_recipe_are_some_over_it(line: Line) -> None:
    load_run(["--config", str(line.page), *line.command.split()])


@in_the_checkout
@pytest.mark.parametrize("words", [
    "millrace adit demo", "millrace audit demo --quik", "millrace up config/none.yaml",
    "millrace up config/recipes/demo_cpu.yaml learner.stepz=3", "millrace dead lst demo",
    "python -m scorers --run demo --queues maths", "python -m scorer --run demo",
    "python -m learner --config config/none.yaml", "make prove-nothing", "make demo SED=1",
    "make demo ARGS=learner.stepz=3", "docker compose up scorers", "docker compose --profile apis up",
    "docker compose up --scale scorers=2", "docker compose exec scorer millrace tops demo",
    "echo RUNS=first >> .env", "python -m broker.monitoring.health scorers demo",
    "kubectl apply -k deploy/kubernetes/bases",
    "kubectl -n millrace exec deploy/scorers -- millrace top demo",
    "kubectl -n millrace logs -f deploy/learner", "squeue --me --name=first-trainer",
    "deploy/slurm/submit.sh first.sh trainers",
])  # fmt: skip
def test_a_command_that_is_none_is_seen(words: str) -> None:
    with pytest.raises((AssertionError, ConfigError, SystemExit, KeyError, pytest.fail.Exception)):
        check_words(words.split())


def test_a_block_of_commands_holds_nothing_else_and_each_is_of_a_known_language() -> None:
    """Else a command would be seen by no test."""
    assert [str(line) for line in strays()] == []
    assert unknown_languages() == []
    assert len(lines()) > 100


def test_every_verb_and_target_in_the_text_is_one() -> None:
    verbs = {verb for line in mentions("millrace") for verb in line.command.split()[1].split("|")}
    named = {verb for verb in verbs if not verb.startswith("--") and not PLACEHOLDER.fullmatch(verb)}
    assert named <= VERBS.keys()
    assert {line.command.split()[1] for line in mentions("make")} <= TARGETS | {"prove-…"}


@in_the_checkout
@pytest.mark.parametrize("line", [*mentions("python"), *mentions("millrace")], ids=str)
def test_every_program_in_the_text_takes_its_options(line: Line) -> None:
    """Parsed, not run."""
    if " --" in line.text and "…" not in line.text:
        check_words([word for word in line.words if word not in {"[key=value", "...]"}])


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a working folder with a finished run `demo` and one that goes on, each on a private Redis that is running."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.delenv("REDIS_URL", raising=False)
        going = make_small_run(folder / "runs", "going", is_finished=False)
        with make_small_run(folder / "runs", "demo"), going:
            yield folder


@pytest.fixture
def beside_runs(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Be in that folder, as who started the runs."""
    monkeypatch.chdir(small_run)
    monkeypatch.setenv("XDG_STATE_HOME", str(small_run / "state"))
    return monkeypatch


def cheap() -> list[list[str]]:
    """Return what the pages ask of a run that is there, by the run's name; each once."""
    found: dict[tuple[str, ...], None] = {}
    for line in lines():
        if line.words[0] == "millrace" and line.words[1] in RAN_HERE and line.page.name != "redis-cli.md":
            found[tuple("demo" if word in {"RUN", "first"} else word for word in line.words[1:])] = None
    return [list(words) for words in found]


@pytest.mark.usefixtures("beside_runs")
@pytest.mark.parametrize("words", [*cheap(), ["dead", "list", "demo"]], ids=" ".join)
def test_what_is_cheap_is_run(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """For real, on a finished run: it is answered, and the code is 0."""
    assert main(words) == 0, capfd.readouterr().err
    assert capfd.readouterr().out


@pytest.mark.usefixtures("beside_runs")
@pytest.mark.parametrize(("verb", "wanted"), CONTROLS.items())
def test_what_an_operator_asks_for_is_asked_of_the_learner(
    verb: str, wanted: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """For real, on a run that goes on and has no learner now."""
    assert main([verb, "going"]) == 0
    assert "no learner of it is alive: the next one will do it" in capfd.readouterr().out
    assert main(["redis-cli", "going", "HGET", "rl:{going}:run", "wanted"]) == 0
    assert capfd.readouterr().out.strip() == wanted


def test_a_copy_of_a_folder_is_a_whole_run(
    small_run: Path, beside_runs: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of docs/operations.md that make a copy and audit it, in their order."""
    page = ROOT / "docs" / "operations.md"
    (block,) = [block for _, block in fences(page) if any("cp -a" in line for line in block)]
    beside_runs.setenv("XDG_STATE_HOME", str(small_run / "elsewhere"))  # as on another machine
    for words in (Line(page, line).words for line in block):
        if words[0] == "millrace":
            assert main(words[1:]) == 0, capsys.readouterr().err
        else:
            subprocess.run(words, check=True)
    assert re.search(r"lost\s+0\b", capsys.readouterr().out)
