"""`millrace import`: what it writes, what it says, and that it writes nothing where something is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.pages.pages import lines
from config.explanations import ConfigError
from config.loading import load_run
from tests.support.told import Capsys, Patch
from tests.support.verbs import call
from tests.support.verl_files import (
    GRPO_YAML,
    GURU_SH,
    II_VERL_ENV,
    II_VERL_YAML,
    MAIN_PPO_SH,
    RUBRIC_SH,
    SEEDS,
    block_with,
    write,
)
from tests.support.verl_runs import verl_rows, write_jsonl, write_parquet
from tools.arguments import UsageError
from tools.imports.reading import read
from tools.imports.translation import RULES

pytestmark = pytest.mark.process

CALLS = {"run_grpo.sh": MAIN_PPO_SH, "run_rubric.sh": RUBRIC_SH, "train.sh": GURU_SH}
MADE = {"config.yaml": II_VERL_YAML, "grpo.yaml": GRPO_YAML, **CALLS, ".env": II_VERL_ENV}
# Training rows that a judge scores, and no held-out ones.
JUDGED = ("data.train_files=rows.parquet", "trainer.test_freq=-1", "~data.val_files")
JUDGED_ROW = {"messages": [], "verification_info": '{"type": "llm_judge"}'}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Work in a folder with all made files, without services in the environment."""
    for name, text in MADE.items():
        write(tmp_path, name, text)
    monkeypatch.chdir(tmp_path)
    for name in ("FUSION_SANDBOX_URL", "SANDBOX_FUSION_SERVERS", "USE_FORMAT_VERIFIER", "STEM_LLM_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def imported(*words: str) -> dict[str, Any]:
    """Import into run.yaml and return what it says; it is a run."""
    assert call("import", *words, "-o", "run.yaml", "--force") == 0
    load_run(["--config", "run.yaml"])
    found: dict[str, Any] = yaml.safe_load(Path("run.yaml").read_text(encoding="utf-8"))
    return found


def refused(words: str, *typed: str) -> None:
    """Import what can't be: it says why, and writes nothing."""
    with pytest.raises(ConfigError, match=words):
        call("import", *typed, "-o", "run.yaml")
    assert not Path("run.yaml").exists()


@pytest.mark.prove(after=2)
@pytest.mark.parametrize("line", [one for one in lines() if one.words[:2] == ["millrace", "import"]], ids=str)
def test_every_command_of_the_page_writes_a_run(line: Any, folder: Path) -> None:
    write(folder, "my_reward.py", "def compute_score(**_): return 1.0\n")
    words = line.words[2:]
    assert call("import", *words) == 0
    load_run(["--config", words[words.index("-o") + 1]])


@pytest.mark.prove(after=2)
@pytest.mark.parametrize("name", [name for name in MADE if name != ".env"])
def test_every_key_has_an_account(name: str, capsys: Capsys) -> None:
    keys = accounts(capsys, "keys", name).values()
    assert {one["key"] for one in keys} == set(read([name]).said)
    assert all(re.fullmatch(rf"{re.escape(name)}:\d+", one["where"]) for one in keys)
    assert {one["verdict"] for one in keys} == {"taken as", "mapped to", "without meaning here"}


# The documents' own configurations and calls, by names that tell what they are: a file of theirs, and words in the block.
BLOCKS = {
    "000.yaml": ("adv_estimator", "data:"),
    "001.yaml": ("algorithm:", "rollout:"),
    "001.sh": ("main_ppo",),
    "004.sh": ("main_ppo",),
}
needs_seeds = pytest.mark.skipif(
    not SEEDS.is_dir(), reason="no ../shared/reference/seeds beside the checkout"
)


def keys_of_yaml(section: dict[str, Any], above: str = "") -> list[str]:
    """Return every key of a configuration, with dots, by YAML's own reader."""
    found = []
    for name, value in section.items():
        found += keys_of_yaml(value, f"{above}{name}.") if isinstance(value, dict) else [f"{above}{name}"]
    return found


def keys_of_call(text: str) -> list[str]:
    """Return every key that a script's call of `main_ppo` sets: its words have a dot before their `=`."""
    call_of_verl = text[text.index("main_ppo") :]
    return re.findall(r"(?:^|\s)\+*([a-z_]+(?:\.[a-z_]+)+)=", call_of_verl)


@pytest.mark.prove(after=1)
@needs_seeds
@pytest.mark.parametrize("name", BLOCKS)
def test_the_documents_own_are_imported_and_no_key_is_left(name: str, folder: Path, capsys: Capsys) -> None:
    text = block_with(name.partition(".")[0], *BLOCKS[name])
    write(folder, name, text)
    expected = keys_of_yaml(yaml.safe_load(text)) if name.endswith(".yaml") else keys_of_call(text)
    assert len(expected) > 20
    assert sorted(accounts(capsys, "keys", name)) == sorted(expected)


@needs_seeds
def test_the_documents_variables_are_read(folder: Path) -> None:
    write(folder, "their.env", block_with("000", "FUSION_SANDBOX_URL="))
    assert imported("config.yaml", "their.env")["scorers"]["sandbox_urls"] == ["http://localhost:8080"]


def test_an_unknown_key_is_named_with_file_and_line_and_nothing_is_written(folder: Path) -> None:
    broken = GRPO_YAML.replace("total_epochs: 15", "total_epoch: 15")
    number = broken.splitlines().index("  total_epoch: 15") + 1
    write(folder, "grpo.yaml", broken)
    refused(rf"grpo\.yaml:{number}: unknown key trainer\.total_epoch; did you mean", "grpo.yaml")
    assert sorted(path.name for path in folder.iterdir()) == sorted(MADE)
    assert call("import", "grpo.yaml", "~trainer.total_epoch", "-o", "run.yaml") == 0


CALL = "python -m verl.trainer.main_ppo"
MANY = "".join(f"b{n}: &a{n} {{<<: [{f'*a{n - 1}, ' * 99}]}}\n" for n in range(1, 9))
UNREADABLE = [
    ("a.yaml", "trainer: [1", "not YAML"),
    ("a.yaml", "- 1\n", "expected keys and values"),
    ("a.yaml", "trainer:\n  nnodes: 1\n  nnodes: 2\n", r"a\.yaml:3: 'nnodes' is written twice"),
    ("a.yaml", "trainer: " + "[" * 1000, r"a\.yaml:1: lists and sections in one another, deeper than 64"),
    ("a.yaml", f"a: &a0 {{x: 1, y: 2}}\n{MANY}", r"a\.yaml:3: more than 20000 keys and values, aliases written out"),
    ("a.yaml", "trainer: &a {nnodes: *a}\n", r"a\.yaml:1: \*a stands within itself"),
    ("a.yaml", f"trainer: {{nnodes: {'9' * 5000}}}\n", r"a\.yaml:1: a whole number of 5000 characters"),
    ("a.yaml", "trainer: {nnodes: !!int x}\n", "x is no int"),
    ("a.sh", f"{CALL} trainer.nnodes={'[' * 1000}\n", "deeper than 64"),
    ("a.sh", f"{CALL} trainer.nnodes={'9' * 5000}\n", "a whole number of 5000"),
    ("a.yaml", "defaults: [a]\ntrainer: {nnodes: 1}\n", "lead back"),
    ("a.sh", "echo hello\n", "no call of verl in it"),
    ("a.sh", f"{CALL} 'open\n", "unexpected EOF"),
    ("a.sh", f"{CALL} trainer.nnodes\n", "is not there"),
    ("a.env", "NOT A VARIABLE\n", r"a\.env:1"),
    ("a.sh", f"{CALL} data.train_files=$(curl x)\n", r"a\.sh:1: data\.train_files: its value is not"),
    ("a.sh", "verl train-ppo grpo.yaml --bakcend fsdp\n", r"a\.sh:1: unknown option --bakcend; did you mean --backend\?"),
    ("a.sh", "verl train-ppo grpo.yaml --backend fspd\n", r"a\.sh:1: --backend='fspd' is refused: none of fsdp, fsdp2"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "words"), UNREADABLE)
def test_what_can_not_be_read_is_named_and_not_written(
    folder: Path, name: str, text: str, words: str
) -> None:
    write(folder, name, text)
    refused(words, name)


def test_a_file_that_is_there_is_written_over_by_force_alone(folder: Path) -> None:
    write(folder, "run.yaml", "mine")
    with pytest.raises(UsageError, match="--force"):
        call("import", "grpo.yaml", "-o", "run.yaml")
    assert (folder / "run.yaml").read_text() == "mine"
    imported("grpo.yaml")


def test_overrides_win_over_the_file_and_references_follow_them(folder: Path) -> None:
    lines = "n_gpus_per_node: ${oc.env:NO_SUCH,4}\n  default_local_dir: out/${trainer.experiment_name}"
    write(folder, "a.yaml", GRPO_YAML.replace("n_gpus_per_node: 8", lines))
    found = imported("a.yaml", "trainer.experiment_name=two", "+data.seed=5", "actor_rollout_ref.rollout.n=2")
    assert (found["name"], found["runs_dir"], found["seed"]) == ("two", "out/two", 5)
    assert (found["sampling"]["group_size"], found["learner"]["ranks"]) == (2, 2)


def test_what_defaults_names_beside_the_file_is_read_first(folder: Path) -> None:
    write(folder, "base.yaml", GRPO_YAML)
    write(folder, "mine.yaml", "defaults: [base, _self_]\ntrainer: {total_epochs: 3}\n")
    assert imported("mine.yaml")["learner"]["epochs"] == 3


def test_a_scripts_own_arguments_follow_it_and_gae_with_a_critic_becomes_grpo(capsys: Capsys) -> None:
    found = imported("run_rubric.sh", "us/policy", "3", "hard_tinyv", "False", "us/rubric", "addon", "0.5")
    assert found["name"] == "policy-hard_tinyv-addon-marked"
    assert (found["model"]["path"], found["learner"]["epochs"]) == ("us/policy", 3)
    assert found["learner"]["objective"]["kl"] == {"coef": 0.001, "estimator": "k3", "place": "loss"}
    # Its endpoint names no server: the run serves one itself.
    assert found["scorers"]["tasks"]["rubric"]["scorer"] == {"type": "rubric", "mode": "addon", "weight": 0.5}
    assert found["judge"] == {"serve": {"model": "us/rubric", "tensor_parallel": 8}}
    assert found["learner"]["loggers"][-1] == {"type": "wandb", "project": "rubric", "mode": "offline"}
    for said in (capsys.readouterr().out, Path("run.yaml").read_text(encoding="utf-8")):
        assert "GAE with a critic becomes GRPO" in said


def test_variables_name_services_and_no_secret_is_written(capsys: Capsys) -> None:
    found = imported("grpo.yaml", ".env")
    assert found["scorers"]["sandbox_urls"] == ["http://localhost:8080"]
    assert "EMPTY" not in Path("run.yaml").read_text(encoding="utf-8") + capsys.readouterr().out


def test_variables_set_the_judge_and_the_formats_share_of_the_tasks_that_there_are(folder: Path) -> None:
    write(folder, ".env", II_VERL_ENV.replace("VERIFIER=false", "VERIFIER=true"))
    write_parquet(folder / "rows.parquet", [JUDGED_ROW])
    task = imported("grpo.yaml", ".env", *JUDGED)["scorers"]["tasks"]["judge"]
    asked = {"urls": ["http://localhost:8002/v1"], "model": "Qwen/Qwen2.5-32B-Instruct"}
    assert (task["scorer"]["endpoint"], task["format"]) == (asked, {"mode": "mix"})


def test_a_configuration_that_a_call_names_and_that_is_not_there_is_no_default(folder: Path) -> None:
    write(folder, "a.sh", f"{CALL} --config-name mine data.train_files=a.parquet\n")
    refused(r"a\.sh:1: .*mine\.yaml is not there", "a.sh")
    write(folder, "mine.yaml", GRPO_YAML)
    assert imported("a.sh")["data"]["train"]["path"] == "a.parquet"


@pytest.mark.parametrize(
    ("rows", "name", "tasks"),
    [
        ([*verl_rows("openai/gsm8k", count=2), *verl_rows("codecontests")], "rows.parquet", {"math", "code"}),
        (verl_rows("searchR1_nq", count=2), "rows.jsonl", {"search"}),
        ([JUDGED_ROW], "rows.parquet", {"judge"}),
        (None, "codegen__leetcode2k_1.3k.parquet", {"code"}),
        (None, "anything.parquet", {"math"}),
    ],
)
def test_the_tasks_are_those_of_the_rows(folder: Path, rows: Any, name: str, tasks: set[str]) -> None:
    if rows is not None:
        (write_parquet if name.endswith("parquet") else write_jsonl)(folder / name, rows)
    words = (f"data.train_files={name}", *JUDGED[1:])
    assert set(imported("grpo.yaml", *words)["scorers"]["tasks"]) == tasks


def test_a_reward_file_and_a_reward_server_become_the_one_task(folder: Path) -> None:
    write(folder, "my_reward.py", "def f(**_): return 1.0\n")
    path = str(folder / "my_reward.py")
    ours = {"type": "verl_function", "path": path, "function": "f", "takes_lists": True}
    words = ("custom_reward_function.path=my_reward.py", "custom_reward_function.name=f")
    found = imported("grpo.yaml", *words, "reward_model.reward_manager=batch")
    assert found["scorers"]["tasks"] == {"reward": {"scorer": ours}}
    server = {"type": "reward_api", "urls": ["http://localhost:8000"], "timeout_s": 60.0, "workers": 10}
    assert imported("config.yaml")["scorers"]["tasks"]["reward"]["scorer"] == server
    assert set(imported("config.yaml", "reward_api.enable=false")["scorers"]["tasks"]) == {"math"}


def test_the_words_of_a_call_may_stand_as_they_are_typed() -> None:
    words = ("--config_path", "grpo.yaml", "--backend", "fsdp", "trainer.total_epochs=2")
    assert imported("verl", "train-ppo", *words)["learner"]["epochs"] == 2
    python = ("python3", "-m", "verl.trainer.main_ppo", "algorithm.adv_estimator=grpo")
    assert imported(*python, "actor_rollout_ref.rollout.n=4")["sampling"]["group_size"] == 4
    own = (
        "--config-name=ppo_megatron_trainer.yaml",
        "data.train_files=a.parquet",
    )  # verl's own configuration
    more = ("actor_rollout_ref.model.path=m", "trainer.v1.trainer_mode=sync")
    assert imported(*python, *own, *more)["model"]["path"] == "m"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("verl.trainer.main_eval", "millrace evaluate"),
        ("verl.trainer.main_generation", "millrace evaluate"),
        ("recipe.sppo.main_sppo", "another algorithm"),
    ],
)
def test_a_typed_call_of_another_program_is_refused(module: str, said: str) -> None:
    refused(said, "python3", "-m", module, "data.path=a.parquet")


def test_without_o_the_run_is_on_standard_output_and_the_list_beside_it(folder: Path, capsys: Capsys) -> None:
    before = sorted(folder.iterdir())
    assert call("import", "grpo.yaml") == 0
    said = capsys.readouterr()
    assert yaml.safe_load(said.out)["name"] == "grpo-one"
    assert "without meaning here (" in said.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("words", [
    ("verl", "train-ppo", "--config_path", "newer.yaml"),
    ("verl", "train-ppo", "newer.yaml"),
    ("newer.yaml", "--backend", "fsdp"),
    ("train.sh",),
], ids=" ".join)  # fmt: skip
def test_a_call_that_only_ii_verl_has_means_its_defaults(folder: Path, words: tuple[str, ...]) -> None:
    newer = GRPO_YAML.replace("adv_estimator: grpo", "adv_estimator: grpo\n  use_kl_in_reward: false")
    write(folder, "newer.yaml", newer)
    write(folder, "train.sh", "verl train-ppo --config_path newer.yaml\n")
    assert imported("newer.yaml")["learner"]["objective"]["entropy_coef"] == 0.0
    assert imported(*words)["learner"]["objective"]["entropy_coef"] == 0.001


def test_ii_verls_base_for_megatron_keeps_activations(folder: Path) -> None:
    write(folder, "short.yaml", GRPO_YAML.replace(", enable_gradient_checkpointing: true", ""))
    words = ("verl", "train-ppo", "short.yaml")
    assert imported(*words)["learner"]["gradient_checkpointing"] is True
    assert imported(*words, "--backend", "megatron")["learner"]["gradient_checkpointing"] is False


def accounts(capsys: Capsys, part: str, *words: str) -> dict[str, dict[str, Any]]:
    """Import with `--json`, and return what it tells of keys, options or variables, by their names."""
    capsys.readouterr()
    assert call("import", *words, "-o", "run.yaml", "--force", "--json") == 0
    load_run(["--config", "run.yaml"])
    found: dict[str, list[dict[str, Any]]] = json.loads(capsys.readouterr().out)
    assert all(one["here"] or one["why"] for one in found[part])
    return {one["key"]: one for one in found[part]}


SERVE = """\
vllm serve some/rubric --tensor-parallel-size 8 --port 8000 --host 0.0.0.0 \\
    --max-model-len {length} --gpu-memory-utilization=0.2 --dtype float16 --enforce-eager 2>&1 > served.log &
torchrun --nproc-per-node 8 -m verl.trainer.main_ppo --backend megatron \\
    data.train_files=rows_tinyv.parquet {setup}
"""
SERVES = "vllm serve"
SETUP = "reward_model.tinyv_setup=tinyv_only"


def test_a_served_model_becomes_the_runs_judge_and_its_options_have_accounts(
    folder: Path, capsys: Capsys
) -> None:
    write(folder, "a.sh", SERVE.format(length=15000, setup=SETUP))
    options = accounts(capsys, "options", "a.sh")
    run = load_run(["--config", "run.yaml"])
    serve = run.judge.serve
    assert serve is not None
    assert (serve.model, serve.tensor_parallel, serve.max_model_len) == ("some/rubric", 8, 15000)
    assert (serve.gpu_memory_utilization, serve.enforce_eager) == (0.2, True)
    assert serve.arguments == ("--dtype", "float16")
    assert [endpoint.urls for _, endpoint in run.scorers.endpoints()] == [()]
    names = ("tensor-parallel-size", "max-model-len", "gpu-memory-utilization", "dtype", "enforce-eager")
    served = {SERVES, *(f"{SERVES} --{name}" for name in (*names, "host", "port"))}
    assert set(options) == {*served, "--backend", "--nproc-per-node"}
    length = options[f"{SERVES} --max-model-len"]
    assert (length["here"], length["where"]) == ({"judge.serve.max_model_len": 15000}, "a.sh:2")
    assert options["--backend"]["value"] == "megatron"
    nothing = {options[name]["verdict"] for name in (f"{SERVES} --port", "--backend", "--nproc-per-node")}
    assert nothing == {"without meaning here"}


def test_a_short_served_model_leaves_room_for_the_question(folder: Path) -> None:
    write(folder, "a.sh", SERVE.format(length=2048, setup=SETUP))
    assert imported("a.sh")["scorers"]["tasks"]["rubric"]["scorer"]["endpoint"] == {"max_tokens": 1024}


def test_a_served_model_that_nobody_asks_or_knows_is_not_served(folder: Path, capsys: Capsys) -> None:
    write(folder, "a.sh", SERVE.format(length=15000, setup="").replace("rows_tinyv", "rows"))
    assert {one["why"] for name, one in accounts(capsys, "options", "a.sh").items() if SERVES in name} == {
        "no scorer of this run asks a served model"
    }
    assert "judge" not in yaml.safe_load(Path("run.yaml").read_text(encoding="utf-8"))
    write(folder, "b.sh", SERVE.format(length=15000, setup=SETUP).replace("some/rubric", "$(cat model.txt)"))
    found = imported("b.sh")
    assert "judge" not in found
    assert found["scorers"]["tasks"]["rubric"]["scorer"]["endpoint"] == {"urls": ["http://localhost:8000"]}


def test_options_that_were_typed_have_an_account(capsys: Capsys) -> None:
    words = ("verl", "train-ppo", "--config_path", "grpo.yaml", "--backend", "megatron")
    told = accounts(capsys, "options", *words)
    verdicts = {name: (one["value"], one["verdict"]) for name, one in told.items()}
    nothing = ("megatron", "without meaning here")
    assert verdicts == {"--config_path": ("grpo.yaml", "taken as"), "--backend": nothing}
    assert call("import", *words) == 0
    assert "--backend=megatron (the command line): without meaning here" in capsys.readouterr().err


def test_each_variable_has_a_verdict_and_none_tells_its_value(folder: Path, capsys: Capsys) -> None:
    more = "LLM_JUGDE_MODEL=m\nWANDB_MODE=offline\nRAY_ADDRESS=auto\nMY_OWN_THING=secret-1\nOUT=o\n"
    write(folder, ".env", II_VERL_ENV + more)
    write(folder, "a.yaml", GRPO_YAML.replace("project_name: gsm8k", "project_name: ${oc.env:OUT}"))
    told = accounts(capsys, "variables", "a.yaml", ".env")
    assert {name: one["verdict"] for name, one in told.items()} == {
        "FUSION_SANDBOX_URL": "mapped to",
        "LLM_JUDGE_MODEL": "without meaning here",  # GSM8K's rows ask no judge
        "LLM_JUDGE_BASE_URL": "without meaning here",
        "LLM_JUDGE_API_KEY": "taken as",
        "USE_FORMAT_VERIFIER": "without meaning here",
        "LLM_JUGDE_MODEL": "unknown",
        "WANDB_MODE": "without meaning here",  # no logger is Weights & Biases'
        "RAY_ADDRESS": "without meaning here",
        "MY_OWN_THING": "unknown",
        "OUT": "without meaning here",
    }
    assert told["FUSION_SANDBOX_URL"]["here"] == {"scorers.sandbox_urls": ["http://localhost:8080"]}
    assert "did you mean LLM_JUDGE_MODEL?" in told["LLM_JUGDE_MODEL"]["why"]
    assert "value" not in told["MY_OWN_THING"]
    assert call("import", "a.yaml", ".env") == 0
    listed = capsys.readouterr().err
    assert all(listed.count(f"\n  {name} (.env:") == 1 for name in told)
    assert "secret-1" not in listed


def test_variables_of_a_judge_are_mapped_where_a_scorer_asks_one(folder: Path, capsys: Capsys) -> None:
    write_parquet(folder / "rows.parquet", [JUDGED_ROW])
    told = accounts(capsys, "variables", "grpo.yaml", ".env", *JUDGED)
    endpoint = "scorers.tasks.judge.scorer.endpoint"
    assert told["LLM_JUDGE_MODEL"]["here"] == {f"{endpoint}.model": "Qwen/Qwen2.5-32B-Instruct"}
    assert told["LLM_JUDGE_BASE_URL"]["here"] == {f"{endpoint}.urls": ["http://localhost:8002/v1"]}


def test_a_scripts_own_variables_are_told_from_unknown_ones(folder: Path, capsys: Capsys) -> None:
    call_of_verl = "verl train-ppo grpo.yaml trainer.experiment_name=$NAME"
    write(folder, "a.sh", f"export NAME=n\nexport OTHER=o\n{call_of_verl}\n")
    told = accounts(capsys, "variables", "a.sh")
    assert (told["NAME"]["verdict"], told["OTHER"]["verdict"]) == ("without meaning here", "unknown")


def test_every_key_of_verl_is_listed_and_a_key_by_the_rule_that_decides(capsys: Capsys) -> None:
    assert call("import", "--keys") == 0
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        rule.key for rule in RULES
    ]
    assert call("import", "--keys", "critic.optim.lr", "data.train_max_samples") == 0
    critic, samples = capsys.readouterr().out.splitlines()
    assert critic.startswith("critic.*: without meaning here; ")
    assert samples == "data.train_max_samples: mapped to data.train.limit; below 0: all"
    with pytest.raises(UsageError, match="has 'no_such_key' in it"):
        call("import", "--keys", "no_such_key")
