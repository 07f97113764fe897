"""Sections whose keys exclude each other, or were taken out; and no secret of this process reaches its log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from config.learner import LearnerConfig
from config.learner.objective import KlConfig, ObjectiveConfig
from config.logs import mask, set_up_logging
from config.run import Run
from config.scorers import ScorersConfig, TaskConfig

OBJECTIVE: TypeAdapter[ObjectiveConfig] = TypeAdapter(ObjectiveConfig)


def objective(**keys: Any) -> ObjectiveConfig:
    return OBJECTIVE.validate_python(keys)


@pytest.mark.parametrize(
    ("type_", "aggregate"),
    [
        *((type_, "token") for type_ in ("grpo", "cispo", "decoupled_ppo", "reinforce", "dppo")),
        ("dr_grpo", "constant"),
        ("gspo", "sequence"),
    ],
)
def test_each_loss_aggregates_as_its_paper_does_and_has_no_reference(type_: str, aggregate: str) -> None:
    found = objective(type=type_)
    assert (found.aggregate, found.kl.coef, found.correction.rollout_rs) == (aggregate, 0.0, ())


def test_a_section_without_a_type_is_grpo_with_its_old_defaults() -> None:
    found = objective(clip_low=0.1).model_dump(include={"type", "clip_low", "clip_high", "dual_clip"})
    assert found == {"type": "grpo", "clip_low": 0.1, "clip_high": 0.28, "dual_clip": 3.0}


def test_decoupled_ppo_weighs_tokens_unless_told_otherwise_and_a_constant_is_asked_for() -> None:
    assert objective(type="decoupled_ppo").correction.rollout_is == "token"
    found = objective(type="decoupled_ppo", correction={"rollout_is": "sequence", "rollout_is_threshold": 5})
    assert (found.correction.rollout_is, found.correction.rollout_is_threshold) == ("sequence", 5.0)
    run = {"name": "r", "model": {"path": "m"}, "sampling": {"max_tokens": 77}}
    run |= {"data": {"train": {"type": "procedural"}}}
    with pytest.raises(ValidationError, match=r"constant needs learner\.objective\.constant_length.*here 77"):
        Run.model_validate(run | {"learner": {"objective": {"type": "dr_grpo"}}})
    learner = {"objective": {"type": "dr_grpo", "constant_length": 77}}
    assert Run.model_validate(run | {"learner": learner}).learner == LearnerConfig.model_validate(learner)


@pytest.mark.parametrize(
    ("name", "estimator"),
    [("kl", "k1"), ("mse", "k2"), ("low_var_kl", "k3"), ("abs", "abs"), ("k1", "k1"), ("k2", "k2")],
)
def test_verls_names_of_the_estimators_are_taken(name: str, estimator: str) -> None:
    assert KlConfig.model_validate({"estimator": name}).estimator == estimator


@pytest.mark.parametrize("type_", ["grpo", "dr_grpo", "gspo", "cispo", "reinforce", "dppo"])
def test_a_weight_on_top_of_a_ratio_to_the_sampler_is_refused_by_name(type_: str) -> None:
    with pytest.raises(ValidationError, match=r"rollout_is: token would correct twice.*decoupled_ppo"):
        objective(type=type_, correction={"rollout_is": "token"})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"constant_length": 8}, "constant_length is for aggregate: constant, not for aggregate: token"),
        ({"kl": {"target": 0.1}}, "kl.target adapts kl.coef, which is 0"),
        ({"kl": {"estimator": "k4"}}, "k1"),
        ({"correction": {"token_k1": [2.0, 0.5]}}, r"0 <= low < high, got \[2.0, 0.5\]"),
        ({"correction": {"rollout_rs": ["seq_max_k3"]}}, "seq_mean_k1"),
    ],
)
def test_what_excludes_each_other_is_named(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        objective(**keys)


WAYS: tuple[dict[str, object], ...] = ({}, {"type": "relay"}, {"type": "custom", "import_path": "a:B"})


@pytest.mark.parametrize("way", WAYS)
def test_null_is_read_and_left_out(way: dict[str, object]) -> None:
    weights = LearnerConfig.model_validate({"weights": way | {"direct": None}}).weights
    assert weights == LearnerConfig.model_validate({"weights": way}).weights
    assert "direct" not in weights.model_dump()


@pytest.mark.parametrize("way", WAYS)
def test_who_sets_it_is_told_what_to_use(way: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"directory: /dev/shm.* type: relay"):
        LearnerConfig.model_validate({"weights": way | {"direct": {"type": "gloo"}}})


OWN = {"type": "environment"}
LAKE = {"type": "custom", "import_path": "lake:Lake"}
TOOLS = {"type": "tools", "functions": ["my_tools:search"]}
BESIDE = {"won": {"scorer": OWN, "weight": 0.5}}
PART = "`extra_scorers.won.scorer` is of type environment"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"scorer": OWN}, "`scorer` is of type environment and takes .* `environment`, which is unset"),
        (
            {"scorer": OWN, "environment": TOOLS},
            "`scorer` is of type environment, and `environment` is of type tools, which gives no reward",
        ),
        ({"extra_scorers": BESIDE}, f"{PART} and takes the reward of `environment`, which is unset"),
        ({"extra_scorers": BESIDE, "environment": TOOLS}, f"{PART}, and `environment` is of type tools"),
        (
            {"scorer": OWN, "environment": LAKE, "extra_scorers": {"m": {"scorer": {"type": "math"}}}},
            "beside it can stand environment, custom, format",
        ),
        (
            {"extra_scorers": {"environment_reward": {"scorer": {"type": "format"}}}},
            "environment_reward is taken",
        ),
    ],
)
def test_what_can_never_have_a_score_is_refused_by_its_keys(task: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TaskConfig.model_validate(task)


TOOLS = {"type": "tools", "programs": ["python"]}


def test_tools_that_run_programs_are_refused_where_programs_go_to_servers_alone() -> None:
    asked = {"sandbox_urls": ("http://sandbox:8080",), "tasks": {"math": {"environment": TOOLS}}}
    with pytest.raises(ValidationError, match=r"math\.environment\.programs run behind walls"):
        ScorersConfig.model_validate(asked | {"sandbox": "fusion"})
    assert ScorersConfig.model_validate(asked).sandbox == "auto"
    no_programs = {"math": {"environment": {"type": "tools", "functions": ["mine:look"]}}}
    ScorersConfig.model_validate(asked | {"sandbox": "fusion", "tasks": no_programs})


@pytest.mark.parametrize(
    ("task", "needs_episode"),
    [
        ({"scorer": OWN, "environment": LAKE}, True),
        ({"scorer": {"type": "math"}, "environment": TOOLS}, False),
        ({"extra_scorers": BESIDE, "environment": LAKE}, True),
        ({"extra_scorers": {"won": {"scorer": OWN, "gate": 0.5}}, "environment": LAKE}, True),
        ({"extra_scorers": {"won": {"scorer": OWN}}, "environment": LAKE}, False),
    ],
    ids=["own", "tools", "by weight", "as a gate", "only reported"],
)
def test_a_task_says_whether_a_text_alone_has_no_score(task: dict[str, Any], needs_episode: bool) -> None:
    assert TaskConfig.model_validate(task).needs_episode is needs_episode


TOKEN, PASSWORD, KEY = "hf_planted-token", "planted:pass/word", "sk-planted-key"
URL = "redis://user:planted%3Apass%2Fword@host:6379/0"


@pytest.fixture
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("REDIS_URL", URL)
    monkeypatch.setenv("RUBRIC_API_KEY", KEY)


@pytest.mark.usefixtures("_planted")
def test_secrets_are_masked_in_messages_arguments_and_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("learner")
    log = logging.getLogger("test")
    log.info("loading with token %s", TOKEN)
    log.info("connecting to %s", URL)
    try:
        raise ValueError(f"can't use {URL!r} as {PASSWORD}")
    except ValueError:
        log.exception("failed token=%s", {"Authorization": f"Bearer {TOKEN}"})
    said = capsys.readouterr().err
    assert said.count("**********") == 5
    assert "ValueError: can't use" in said
    assert "planted" not in said


@pytest.mark.usefixtures("_planted")
@pytest.mark.parametrize("text", [TOKEN, URL, PASSWORD, KEY, "planted%3Apass%2Fword", f"a{TOKEN}b{TOKEN}"])
def test_a_secret_is_masked_in_every_spelling(text: str) -> None:
    assert "planted" not in mask(f"before {text} after")


CLIENTS_KEY = "rediss://h:1/0?ssl_ca_certs=/tls/ca.pem&ssl_password=planted%20word&ssl_keyfile=/tls/k.pem"


@pytest.mark.parametrize(
    ("url", "text", "is_shown"),
    [
        (CLIENTS_KEY, "a key behind planted%20word, or planted word", False),
        (CLIENTS_KEY, "can't read /tls/ca.pem", True),  # its files are no secret
        ("redis://host:6379/0", "redis at host:6379", True),
        ("redis://:planted@[::1", "can't use redis://:planted@[::1", False),  # it can't be parsed
    ],
)
def test_a_password_is_masked_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, url: str, text: str, *, is_shown: bool
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    assert mask(text) == text if is_shown else "planted" not in mask(text)


def test_a_line_says_when_who_how_bad_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("generator")
    logging.getLogger("generators.worker").warning("sampled group=%s", "17")
    time, rest = capsys.readouterr().err.split(" ", 1)
    assert len(time.split(":")) == 3
    assert rest == "generator WARNING generators.worker: sampled group=17\n"
