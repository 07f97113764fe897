"""The commands of a run, and the verbs of `millrace`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.explanations import ConfigError
from config.loading import load_run
from learner.journal.writer import Journal
from learner.launch.preflight import check_places
from tests.support.laid_out import train
from tests.support.paths import ROOT
from tests.support.recipe_rows import ROWS_OF
from tests.support.told import Millrace, Patch
from tests.tools.conftest import LeaveRun, MakeRun
from tools.runs.redis_cli import options_of
from tools.up.role_commands import commands

pytestmark = [pytest.mark.process, pytest.mark.prove(after=3)]

CONFIG = """
name: demo
runs_dir: {runs_dir}
model: {{path: tiny}}
data: {{train: {{type: procedural}}}}
generators: {{count: 3, gpus: [0, 1, 2, 3], engine: {{type: vllm, tensor_parallel: 2}}}}
learner: {{gpus: [4, 5], ranks: 2}}
"""


@pytest.fixture
def config(runs_dir: Path) -> Path:
    file = runs_dir.parent / "demo.yaml"
    file.write_text(CONFIG.format(runs_dir=runs_dir))
    return file


@pytest.mark.parametrize(
    ("gpus", "width", "seen"),
    [
        ([], 1, ["", ""]),  # none handed out: all are visible
        ([0, 1], 1, ["0", "1"]),
        ([3], 1, ["3", "3"]),  # two share one
        ([0, 1, 2, 3], 2, ["0,1", "2,3"]),
        ([5, 6, 7], 2, ["5,6", "7,5"]),
    ],
)
def test_generators_go_round_the_gpus(
    gpus: list[int], width: int, seen: list[str], make_run: MakeRun, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    engine = {"type": "vllm", "tensor_parallel": width}
    run = make_run(generators={"count": 2, "gpus": gpus, "engine": engine})
    assert [command.gpus for command in commands(run, []) if command.role.startswith("generator")] == seen


def test_too_few_gpus_for_one_generator_are_a_config_error(make_run: MakeRun) -> None:
    run = make_run(generators={"gpus": [0], "engine": {"type": "vllm", "tensor_parallel": 2}})
    with pytest.raises(ConfigError, match=r"generators.gpus names 1 .*tensor_parallel=2"):
        commands(run, [])


def test_a_dry_run_shows_commands_with_their_gpus(config: Path, runs_dir: Path, millrace: Millrace) -> None:
    told = millrace("up", config, "--dry-run", "learner.steps=7")
    assert told.code == 0
    lag = [line for line in told.lines if line.startswith("# Lag: groups_in_flight=")]
    assert any("expected_lag_mean=" in line for line in lag)
    assert [line for line in told.lines if not line.startswith("#")] == [
        f"CUDA_VISIBLE_DEVICES=4,5 {sys.executable} -m learner --config {config} learner.steps=7",
        *(
            f"CUDA_VISIBLE_DEVICES={gpus} {sys.executable} -m generators --run demo"
            for gpus in ("0,1", "2,3", "0,1")
        ),
        f"{sys.executable} -m scorers --run demo",
    ]
    assert not list(runs_dir.iterdir())


@pytest.mark.parametrize(
    "recipe", sorted((ROOT / "config" / "recipes").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_recipe_can_be_tried_dry(
    recipe: Path, runs_dir: Path, tmp_path: Path, millrace: Millrace, monkeypatch: Patch
) -> None:
    here = tmp_path / "here"
    (here / "runs/rrm/model").mkdir(parents=True)
    monkeypatch.chdir(here)
    ROWS_OF[recipe.stem](here)  # the files that some name; others name data of the hub
    told = millrace("up", recipe, "--dry-run", f"runs_dir={runs_dir}")
    run = load_run(["--config", str(recipe)])
    assert told.code == 0
    assert told.out.count(f"-m learner --config {recipe} runs_dir={runs_dir}") == 1
    assert told.out.count(f"-m generators --run {run.name}\n") == run.generators.count
    assert not list(runs_dir.iterdir())


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        *("up LONG", "doctor LONG", "plan LONG", "evaluate LONG", "difficulty LONG", "score LONG"),
        *("data check LONG.yaml", "think-template LONG -o x", "import LONG.yaml"),
    ],
)
def test_a_name_that_no_file_can_have_is_said_and_no_traceback(
    words: str, tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    monkeypatch.chdir(tmp_path)
    told = millrace(*words.replace("LONG", LONG).split())
    assert (told.code in {1, 2}, LONG in told.err) == (True, True)
    assert told.err.startswith(f"millrace {words.split(maxsplit=1)[0]}")


def test_a_finished_run_has_a_new_name(config: Path, leave_run: LeaveRun, millrace: Millrace) -> None:
    leave_run("demo", "finished")
    code, out, _ = millrace("up", config, "--dry-run")
    assert code == 0
    assert out.startswith("run demo is finished; this one is called demo-2\n")
    assert ("name=demo-2" in out, out.count("--run demo-2")) == (True, 4)


def test_an_unfinished_run_keeps_its_name(config: Path, leave_run: LeaveRun, millrace: Millrace) -> None:
    leave_run("demo", "stopped", version=3, steps=7)
    code, out, _ = millrace("up", config, "--dry-run")
    assert (code, out.count("--run demo\n")) == (0, 4)
    assert out.startswith("run demo goes on: it was stopped after 3 of 7 steps\n")


NO_JOURNAL = "no journal in {folder}/nobody: give --runs-dir"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("chaos {config}", 2, "--minutes"),
        ("chaos {config} --minutes 0", 2, "positive"),
        ("chaos {config} --minutes 1 learner.stepz=7", 2, "learner.steps"),
        ("up {config} learner.stepz=7", 2, "learner.steps"),
        ("up {folder}/none.yaml", 2, "No such file"),
        ("up", 2, "CONFIG"),
        ("down", 2, "down"),
        ("", 2, "usage"),
        ("rm nobody --yes --runs-dir {folder}", 1, "no run nobody"),
        ("redis-cli --runs-dir {folder} nobody ping", 1, "no Redis is known for run 'nobody'"),
        ("replay nobody --runs-dir {folder}", 1, NO_JOURNAL),
        ("export nobody -o {folder}/x --runs-dir {folder}", 1, NO_JOURNAL),
        ("rescore nobody --scorer math --runs-dir {folder}", 1, "no run 'nobody'"),
        ("trace nobody 17 --runs-dir {folder}", 1, "run nobody: no journal in {folder}/nobody/journal;"),
        ("trace nobody first", 2, "'first' is no group: 17 is one"),
        ("judge-check {folder}/none.jsonl", 2, "none.jsonl: No such file"),
        ("runs --runs-dir {folder}/none", 1, "there is no folder {folder}/none"),
        ("--help", 0, "redis-cli"),
        ("--version", 0, "redis "),
    ],
)
def test_the_command_answers_with_the_right_code(
    config: Path, tmp_path: Path, millrace: Millrace, *, words: str, code: int, says: str
) -> None:
    told = millrace(*words.format(config=config, folder=tmp_path).split())
    assert told.code == code, told
    assert says.format(folder=tmp_path) in told.out + told.err


AT_ONCE = """
import sys
from tools.main import main
def code_of(words):
    try:
        return main(words)
    except SystemExit as end:
        return end.code
codes = [code_of(words.split()) for words in sys.argv[1:]]
print(codes, sorted({"torch", "transformers", "vllm", "deepspeed", "datasets"} & set(sys.modules)))
"""


def test_the_command_answers_before_a_library_of_models_is_imported() -> None:
    words = ("up none.yaml", "trace nobody first", "judge-check none.jsonl", "up", "--version")
    command = [sys.executable, "-c", AT_ONCE, *words]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert answer.stdout.splitlines()[-1] == "[2, 2, 2, 2, 0] []", answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_reader_that_has_read_enough_ends_the_command_without_a_traceback() -> None:
    words = [sys.executable, "-m", "tools.main", "keys"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.readline().startswith(b"name  (str, required)")
        command.stdout.close()
        assert (command.stderr.read(), command.wait(60)) == (b"", 141)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("learner.resume=aut", ": must be auto, never, or a checkpoint's folder"),
        ("learner.resume=runs/none/checkpoints/step-000001", ": must be"),
        ("model.path=config/recipes/demo_modle", ": there is no such folder"),
        ("model.path=./tiny", ": there is no such folder"),
        ("learner.objective.kl={coef: 0.1, reference: ./none}",
            "learner.objective.kl.reference=./none: there is no such folder"),
        ("data.train={type: dataset, path: rows.jsonl}", "data.train.path=rows.jsonl: there is no such file"),
        ("data.held_out={type: dataset, path: /none/rows}",
            "data.held_out.path=/none/rows: there is no such file or fold"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", ["up --dry-run", "up", "chaos --minutes 1"])
def test_a_place_that_is_not_there_is_named_by_its_key_and_nothing_starts(
    config: Path, runs_dir: Path, millrace: Millrace, *, words: str, setting: str, says: str
) -> None:
    told = millrace(*words.split(), config, setting)
    assert (told.code, (setting if says[0] == ":" else "") + says in told.err) == (2, True)
    assert not list(runs_dir.iterdir())


def test_places_and_names_of_the_hub_are_let_pass(
    make_run: MakeRun, leave_run: LeaveRun, runs_dir: Path
) -> None:
    (runs_dir / "rows.jsonl").touch()
    here, hub = ({"type": "dataset", "path": path} for path in (f"{runs_dir}/rows.jsonl", "openai/gsm8k"))
    data = {"train": here, "held_out": hub}
    for path in ("Qwen/Qwen2.5-0.5B-Instruct", "gpt2", str(runs_dir)):
        check_places(make_run(model={"path": path}, data=data, learner={"resume": str(runs_dir)}))
    leave_run("demo", "stopped")
    check_places(make_run(learner={"resume": "gone/since/then"}))  # it goes on, and needs that no more


@pytest.mark.parametrize("url", ["http://x", "redis://127.0.0.1:none"])
@pytest.mark.parametrize(
    "words",
    ["up {config} --plain", "rm demo --yes --runs-dir {folder}", "redis-cli --runs-dir {folder} demo ping"],
)
def test_a_redis_url_that_is_none_is_said_to_be_none(
    config: Path, runs_dir: Path, monkeypatch: Patch, millrace: Millrace, *, words: str, url: str
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    told = millrace(*words.format(config=config, folder=runs_dir).split())
    assert (told.code, "REDIS_URL is no URL of a redis: " in told.err) == (1, True)


MANY = b"".join(b"b%d: &a%d [%s]\n" % (n, n, b"*a%d, " % (n - 1) * 99) for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "expected keys and values, got NoneType"),
        (b"name: [", "not YAML"),
        (b"\xff\x00", "not YAML"),
        (b"name: " + b"[" * 1000, "in one another, deeper than 64"),
        (b"a: &a0 [x]\n" + MANY, "aliases written out"),
        (b"seed: " + b"9" * 5000, "a whole number of 5000 characters"),
        (b"seed: !!int x", "is no int"),
        (b"name: demo", "model"),
    ],
)
@pytest.mark.parametrize("words", [
    *("replay demo", "export demo -o {folder}/x", "rescore demo --scorer math"),
    "journal export demo --out {folder}/x.jsonl",
], ids=lambda words: words.split()[0])  # fmt: skip
def test_a_run_whose_config_is_no_configuration_is_refused_by_its_file(
    words: str, text: bytes, says: str, runs_dir: Path, millrace: Millrace
) -> None:
    folder = runs_dir / "demo"
    journal = Journal(folder / "journal", 1, run="demo")
    train(journal, 0, "0")
    journal.close()
    (folder / "config.yaml").write_bytes(text)
    told = millrace(*words.format(folder=runs_dir).split(), "--runs-dir", runs_dir)
    assert (told.code != 0, says in told.err) == (True, True)
    assert text == b"name: demo" or str(folder / "config.yaml") in told.err


@pytest.mark.parametrize(("url", "options", "password"), [
    ("redis://:word@127.0.0.1:7000/0", "-h 127.0.0.1 -p 7000", "word"),
    ("rediss://me:a%40b@far/2", "-h far -p 6379 -n 2 --user me --tls", "a@b"),
    ("unix:///run/redis.sock", "-s /run/redis.sock", ""),
    ("rediss://h/0?ssl_ca_certs=/a/ca.pem&ssl_certfile=/a/c.pem&ssl_keyfile=/a/c.key",
        "-h h -p 6379 --tls --cacert /a/ca.pem --cert /a/c.pem --key /a/c.key", ""),
    ("rediss://h/0?ssl_cert_reqs=none", "-h h -p 6379 --tls --insecure", ""),
])  # fmt: skip
def test_redis_cli_gets_the_address_without_the_password(url: str, options: str, password: str) -> None:
    assert options_of(url) == (options.split(), password)


def test_a_redis_cli_without_tls_says_where_there_is_one(
    tls_url: str, tmp_path: Path, monkeypatch: Patch, millrace: Millrace
) -> None:
    monkeypatch.setenv("REDIS_URL", tls_url)
    monkeypatch.setenv("PATH", str(tmp_path))  # the wheel's redis-cli is left, which is built without
    told = millrace("redis-cli", "demo", "PING")
    assert (told.code, "is built without TLS" in told.err) == (1, True)
