"""The compose files: what the public schema says of them, and what no container may do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from benchmarks.compose.agents import PLAY
from benchmarks.compose.proof import SLEEPY
from config.generators import ScriptedEngineConfig
from config.loading import load_run
from config.run import Run
from tests.support.paths import PACKAGES, ROOT
from tests.support.tls import certificates

FILES = sorted(ROOT.glob("compose*.yaml"))
# Of the Compose Specification, Apache-2.0: github.com/compose-spec/compose-spec at 170098ba (2026-06-23).
SCHEMA = json.loads((Path(__file__).parent / "compose-spec.json").read_text(encoding="utf-8"))
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?:(?P<kind>:-|:\?)(?P<rest>[^}]*))?\}")


def interpolated(file: Path, variables: Mapping[str, str] | None = None) -> Any:
    """Return a compose file as `compose config` has it, for the forms of variables that ours use."""
    known = variables or {}

    def value(found: re.Match[str]) -> str:
        if known.get(found["name"]):
            return known[found["name"]]
        if found["kind"] == ":?":
            raise KeyError(found["rest"])
        return found["rest"] or ""

    return yaml.safe_load(VARIABLE.sub(value, file.read_text(encoding="utf-8")).replace("$$", "$"))


REPLACED = {"command", "entrypoint", "test"}  # lists of which compose takes the later file's; others it joins


def merged(base: Any, over: Any, key: str = "") -> Any:
    """Return two compose files as `-f base -f over` has them: mappings key by key, lists one behind the other."""
    if isinstance(base, dict) and isinstance(over, dict):
        both = {name: merged(base[name], over[name], name) for name in base.keys() & over.keys()}
        return base | over | both
    if isinstance(base, list) and isinstance(over, list) and key not in REPLACED:
        return base + [entry for entry in over if entry not in base]
    return over


STACK = interpolated(ROOT / "compose.yaml")
OURS = {name: service for name, service in STACK["services"].items() if name != "prometheus"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_compose_file_is_one_by_the_public_schema(file: Path) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(interpolated(file, {"REDIS_PASSWORD": "mine"}))


def test_the_demo_needs_no_profile_and_extras_have_one() -> None:
    plain = {name for name, service in STACK["services"].items() if "profiles" not in service}
    assert plain == {"redis", "learner", "generator", "scorer", "scorer-code", "sandbox"}


@pytest.mark.parametrize("name", OURS)
def test_a_container_can_not_write_outside_its_volumes_nor_gain_rights(name: str) -> None:
    service = OURS[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= service.keys()
    assert "user" not in service, "the images say who runs"


def test_the_sandbox_reaches_nobody_but_who_asks_it() -> None:
    assert OURS["sandbox"]["networks"] == ["walls"]
    assert STACK["networks"]["walls"] == {"internal": True}
    assert "environment" not in OURS["sandbox"], "no password, no token"
    inside = {name for name, service in OURS.items() if "walls" in service["networks"]}
    assert inside == {"sandbox", "agent", "scorer-code", "scorer-api"}


@pytest.mark.parametrize("name", [name for name in OURS if name not in {"api", "judge", "metrics"}])
def test_whoever_works_in_a_run_has_a_health_check_and_starts_again(name: str) -> None:
    assert OURS[name]["healthcheck"]["test"]
    assert OURS[name]["restart"] == "on-failure:10"


def test_nothing_waits_for_the_order_of_starts() -> None:
    assert not any("depends_on" in service for service in STACK["services"].values())


def test_what_is_published_is_published_on_loopback() -> None:
    ports = [port for service in STACK["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("file", ["compose.redis-port.yaml", "compose.redis-tls.yaml"])
def test_redis_is_published_with_a_password_of_ones_own_alone(file: str) -> None:
    with pytest.raises(KeyError, match="set REDIS_PASSWORD"):
        interpolated(ROOT / file)


def test_by_tls_the_plain_port_is_not_published() -> None:
    over = interpolated(ROOT / "compose.redis-tls.yaml", {"REDIS_PASSWORD": "mine"})
    redis = merged(STACK, over)["services"]["redis"]
    assert redis["ports"] == ["6380:6380"]
    assert "./tls:/tls:ro" in redis["volumes"]
    assert redis["environment"]["REDIS_TLS"] == "/tls"


@pytest.mark.parametrize("with_tls", [True, False])
def test_redis_in_its_container_has_a_port_with_tls_where_it_is_told_so(
    tmp_path: Path, with_tls: bool
) -> None:
    """The container's own script, with a redis-server in the place of the real one that shows its settings."""
    shown = tmp_path / "redis-server"
    shown.write_text('#!/bin/sh\ncat "$1"\n')
    shown.chmod(0o755)
    script = (ROOT / "deploy/docker/redis.sh").read_text().replace("/tmp/redis.conf", str(tmp_path / "conf"))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REDIS_PASSWORD": "word", "REDIS_DATA": str(tmp_path)}
    if with_tls:
        certificates(tmp_path / "tls", "localhost")
        environment["REDIS_TLS"] = str(tmp_path / "tls")
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env=environment)
    said = done.stdout.splitlines()
    assert "port 6379" in said
    assert ("tls-port 6380" in said) is with_tls
    assert (f"tls-key-file {tmp_path}/tls/redis.key" in said) is with_tls


def test_every_variable_is_in_the_example_with_its_default() -> None:
    used = {
        found["name"]: found["rest"] or ""
        for file in FILES  # compose.yaml, the last, has its own defaults
        for found in VARIABLE.finditer(file.read_text(encoding="utf-8"))
        if found["kind"] == ":-"
    }
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^#?(\w+)=(\S*)", example, re.MULTILINE))
    assert {name: value for name, value in shown.items() if name in used} == used


def told(file: str = "compose.yaml", more: str = "", **variables: str) -> Run:
    """Return the run that compose tells the learner, without LEARNER_ARGS."""
    stack = interpolated(ROOT / file, variables)
    shell, flag, line = stack["services"]["learner"]["command"]
    assert (shell, flag) == ("sh", "-c")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return load_run([*line.removesuffix(" $LEARNER_ARGS").split()[4:], *more.split()])


@pytest.mark.parametrize("engine", ["hf", "vllm"])
def test_what_compose_tells_the_learner_is_a_run(engine: str) -> None:
    run = told(ENGINE=engine)
    assert (run.generators.engine.type, str(run.runs_dir)) == (engine, "/runs")
    assert set(run.scorers.tasks) == {"math", "code"}


SLEEPY_RECIPE = "benchmarks/compose/own/sleepy.yaml"


@pytest.mark.parametrize("file", ["compose.yaml", "compose.gpu.yaml"])
def test_the_scorer_that_a_recipe_names_is_the_runs(file: str) -> None:
    tasks = told(file, RECIPE=SLEEPY_RECIPE).scorers.tasks
    assert (tasks["math"].scorer.type, tasks["code"].scorer.type) == ("custom", "code")


def test_a_recipe_may_have_tools_that_run_programs_and_one_that_plays() -> None:
    task = "scorers.tasks.math.environment"
    scorers = told(more=f"{task}.type=tools {task}.programs=[python,bash]").scorers
    assert (scorers.sandbox, scorers.sandbox_urls) == ("auto", ("http://sandbox:8080",))
    played = told(RECIPE=PLAY["RECIPE"])
    assert played.has_agents
    assert set(played.scorers.tasks) == {"math", "code"}


def test_what_the_proof_of_scaling_tells_the_learner_is_a_run_of_the_fake_engine() -> None:
    run = told(more=SLEEPY["LEARNER_ARGS"], RECIPE=SLEEPY_RECIPE)
    assert run.generators.engine == ScriptedEngineConfig(answers=("one", "other"))


def all_stages(dockerfile: Path) -> dict[str, list[str]]:
    """Return the lines of each target of a Dockerfile."""
    text = dockerfile.read_text(encoding="utf-8")
    parts = [part.strip().splitlines() for part in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]]
    return {first.split()[-1]: lines for first, *lines in parts}


def stages() -> dict[str, list[str]]:
    """Return the lines of each target that has our code."""
    docker = ROOT / "deploy/docker"
    found = all_stages(docker / "Dockerfile") | all_stages(docker / "gpu.Dockerfile")
    return {name: lines for name, lines in found.items() if "COPY . ." in lines}


@pytest.mark.parametrize("engine", ["hf", "vllm"])
@pytest.mark.parametrize(
    "over", ["", *(f"compose.{part}.yaml" for part in ("gpu", "redis-port", "redis-tls"))]
)
def test_what_is_built_has_its_dockerfile_and_its_target(over: str, engine: str) -> None:
    known = {"ENGINE": engine, "REDIS_PASSWORD": "mine"}
    stack = interpolated(ROOT / "compose.yaml", known)
    if over:
        stack = merged(stack, interpolated(ROOT / over, known))
    built = {name: service["build"] for name, service in stack["services"].items() if "build" in service}
    assert {"redis", "learner", "generator", "judge", "scorer", "sandbox"} <= built.keys()
    for name, build in built.items():
        dockerfile = ROOT / build["context"] / build["dockerfile"]
        assert dockerfile.is_file(), name
        assert "target" not in build or build["target"] in all_stages(dockerfile), name


ON_GPUS = ("learner", "generator", "judge")


@pytest.mark.parametrize("name", ON_GPUS)
def test_a_role_on_gpus_sees_those_that_are_named_for_it_and_has_room_for_its_threads(name: str) -> None:
    over = interpolated(ROOT / "compose.gpu.yaml", {f"{name.upper()}_GPUS": "2,3"})
    several = merged(STACK, over)["services"][name]
    base = STACK["services"][name]["environment"]
    assert several["environment"] == base | {"CUDA_VISIBLE_DEVICES": "2,3"}, "and keeps what it had"
    (device,) = several["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert several["pids_limit"] == 8192
    for key in ("read_only", "cap_drop", "security_opt", "networks", "volumes"):
        assert several[key] == STACK["services"][name][key]


def test_gpus_change_nothing_for_the_others() -> None:
    services = merged(STACK, interpolated(ROOT / "compose.gpu.yaml"))["services"]
    for name in STACK["services"].keys() - {*ON_GPUS}:
        assert services[name] == STACK["services"][name]


def test_the_image_for_gpus_has_a_compiler_and_none_of_cudas() -> None:
    (first, *lines) = (ROOT / "deploy/docker/gpu.Dockerfile").read_text().partition("FROM ")[2].splitlines()
    text = "\n".join(lines)
    assert first == "python:3.11-slim-bookworm AS gpu"
    wanted = ("g++", "grep -v '^flash-attn=='", "PYTHONPATH=/srv/millrace")
    assert [part for part in (*wanted, "nvcc") if part in text] == [*wanted]


def test_no_other_container_has_the_sandboxs_user() -> None:
    users = {name: lines[-1] for name, lines in stages().items()}
    assert users.pop("sandbox") == "USER 61064:61064"
    assert set(users.values()) == {"USER 1000:1000"}, "RLIMIT_NPROC counts what a user has in all containers"


def test_our_code_is_compiled_in_every_image_that_has_it() -> None:
    for lines in stages().values():
        assert lines[lines.index("COPY . .") + 1] == "RUN python -m compileall -q ."


@pytest.mark.parametrize("lock", ["scorers", "agents", "learner"])
def test_an_image_installs_a_part_of_the_lock(lock: str) -> None:
    whole, part = (
        set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE))
        for name in ("cpu", lock)
    )
    assert part < whole
    assert ("torch==" in "".join(part)) == (lock == "learner")
    assert not any(pin.startswith("vllm") for pin in part)


def test_an_image_has_every_package() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(PACKAGES) <= kept
