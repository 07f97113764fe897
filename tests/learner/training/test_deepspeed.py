"""The policy on DeepSpeed itself: ZeRO 0 and 1 in one process, 2 and 3 in two, against a step written in plain torch.

Processes are dear (seconds of imports), so that each of the four here goes through several policies, and the tests look
at what they left behind. The two of a pair are separate on purpose: a checkpoint has to do in a fresh process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from broker.errors import RunFailed
from config.learner.training import OptimizerConfig
from config.run import Run
from learner.training.attention import VARLEN
from learner.training.engines.engine_config import deepspeed_config
from learner.training.passes import learning_rate
from tests.support.policy_driver import make_batch
from tests.support.policy_workshop import (
    LARGE,
    SMALL,
    STEPS,
    TOY,
    Weights,
    Workshop,
    assert_near,
    assert_same_steps,
    distance,
    steps_from,
    two_steps_of,
    zero,
)
from tests.support.tiny import random_groups, tiny_run, write_own_head

pytestmark = [pytest.mark.model, pytest.mark.together("whole runs"), pytest.mark.timeout(300)]

CHECKPOINTED: dict[str, Any] = {"gradient_checkpointing": True}
OWN_OBJECTIVE = zero(1, objective={"type": "custom", "import_path": TOY})
WITH_REFERENCE = {"kl": {"coef": 0.3}, "entropy_coef": 0.05, "aggregate": "prompt"}


Said = dict[str, list[Any]]
Say = Callable[[str], Said]


def compared(workshop: Workshop, stage: int) -> dict[str, Any]:
    """Return a comparison with the sampler, between two moments of the weights."""
    before, after = (["save_weights", workshop.path(f"{when}-{stage}")] for when in ("before", "compared"))
    steps = [before, ["differences", 0, SMALL], after]
    return {"model": str(workshop.model), "learner": zero(stage), "do": steps}


def own_head(workshop: Workshop, stage: int) -> dict[str, Any]:
    """Return what is loaded of a checkpoint whose config denies its head, and what a step makes of it."""
    folder = write_own_head(workshop.folder / f"own-head-{stage}")
    loaded, trained = (["save_weights", workshop.path(f"{when}-{stage}")] for when in ("loaded", "trained"))
    return {"model": str(folder), "learner": zero(stage), "do": [loaded, *steps_from(0, 1, SMALL), trained]}


# Ranks, exit code, whose checkpoints are gone on from, and the plan. `make test` has the first three alone.
Process = tuple[int, int, tuple[str, ...], Callable[[Workshop], dict[str, Any]]]
PROCESSES: dict[str, Process] = {
    "alone": (  # ZeRO 0 and 1
        *(1, 0, ()),
        lambda of: {
            "zero-0": of.life("zero-0", zero(0)),
            "zero-1": of.life("zero-1", zero(1)),
            "toy": {"model": str(of.model), "learner": OWN_OBJECTIVE, "do": steps_from(0, 2, SMALL)},
            "skips-1": of.skipping_life("skips-1", zero(1)),
            "reference": of.life("reference", zero(1, objective=WITH_REFERENCE)),
            "compared": compared(of, 1),
            "own-head": own_head(of, 1),
            "varlen": two_steps_of(of, "varlen", zero(1, attention="varlen")),
        },
    ),
    "alone_again": (
        *(1, 0, ("alone",)),
        lambda of: {
            "zero-1": of.second_life("zero-1", zero(1)),
            "reference": of.second_life("reference", zero(1, objective=WITH_REFERENCE)),
            "skips-1": of.skipping_again("skips-1", zero(1)),
            "refused": {"model": str(of.model), "learner": zero(1)}
            | {
                "do": [
                    ["load_checkpoint", of.path(*name)]
                    for name in (("zero-0", "checkpoint"), ("no", "thing"))
                ]
            },
        },
    ),
    "together": (  # ZeRO 3 and 2, and a row over both
        *(2, 0, ()),
        lambda of: {
            # First, since DeepSpeed hears of the ranks from no engine before it.
            "reference-of-two": of.life("reference-of-two", zero(3, objective=WITH_REFERENCE)),
            "zero-2": of.life("zero-2", zero(2)),
            "sequence": two_steps_of(of, "sequence", zero(1, sequence_ranks=2), tokens=97),
        },
    ),
    "single": (
        *(1, 0, ()),
        lambda of: {
            "one-row": of.life("one-row", zero(1, **CHECKPOINTED), tokens_per_micro_batch=LARGE),
            "repeated": of.life("repeated", zero(0)),
            "bfloat16": of.life("bfloat16", zero(1), dtype="bfloat16"),
            "skips-0": of.skipping_life("skips-0", zero(0)),
        },
    ),
    "single_again": (
        *(1, 0, ("single",)),
        lambda of: {
            "repeated": of.second_life("repeated", zero(0)),
            "bfloat16": of.second_life("bfloat16", zero(1), dtype="bfloat16"),
            "skips-0": of.skipping_again("skips-0", zero(0)),
        },
    ),
    "split": (
        *(2, 0, ()),
        lambda of: {
            "zero-3": of.life("zero-3", zero(3)),
            "one-row-of-two": of.life(
                "one-row-of-two", zero(3, **CHECKPOINTED), tokens_per_micro_batch=LARGE
            ),
            "skips-2": of.skipping_life("skips-2", zero(2)),
            "skips-3": of.skipping_life("skips-3", zero(3)),
            "compared-of-two": compared(of, 3),
            "own-head-of-two": own_head(of, 3),
        },
    ),
    "split_again": (  # at the end the first one fails, and takes the second with it
        *(2, 1, ("split", "alone")),
        lambda of: {
            "zero-3": of.second_life("zero-3", zero(3)),
            "zero-0": of.second_life("zero-0", zero(0), again="by two"),
            "skips-2": of.skipping_again("skips-2", zero(2)),
            "skips-3": of.skipping_again("skips-3", zero(3)),
            "fails": of.failure(zero(2), broken_rank=0),
        },
    ),
    # As the learner starts them. The second one fails, and takes the first with it.
    "broken": (2, 1, (), lambda of: {"fails": of.failure(zero(2), broken_rank=1)}),
}


@pytest.fixture(scope="module")
def say(workshop: Workshop) -> Say:
    """Return what the processes of a name say, which are started when they are first asked for."""

    @cache
    def say(name: str) -> Said:
        ranks, code, before, plan = PROCESSES[name]
        for other in before:
            say(other)
        return workshop.do(name, plan(workshop), ranks=ranks, code=code)

    return say


@pytest.fixture(scope="module")
def by_hand(workshop: Workshop) -> tuple[Weights, list[float], list[float]]:
    """Return the same steps in plain torch: no packing, no rows, no engine. Weights, losses and norms of the gradients."""
    run = tiny_run(workshop.model)
    model, keys = AutoModelForCausalLM.from_pretrained(workshop.model).eval(), run.learner.optimizer
    settings: dict[str, Any] = {"betas": keys.betas, "eps": keys.eps, "weight_decay": keys.weight_decay}
    optimizer = torch.optim.AdamW(model.parameters(), **settings)
    losses, norms = [], []
    for version, rate in zip(range(STEPS), (0.5e-2, 1e-2), strict=True):  # two steps of warm-up to 1e-2
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        losses.append(sum(_sequence_losses(model, run, version)))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), keys.grad_clip)
        norms.append(norm.item())
        optimizer.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, losses, norms


def _sequence_losses(model: PreTrainedModel, run: Run, version: int) -> Iterator[float]:
    """Yield each sequence's share of a step's loss, after its backward pass."""
    batch = make_batch(version, tokens_per_micro_batch=1)  # every sequence a row of its own
    for row in batch.micro_batches():
        token_ids, mask = torch.tensor(batch.token_ids[row]).long(), torch.tensor(batch.loss_mask[row])[1:]
        logits = model(input_ids=token_ids[None], use_cache=False).logits[0, :-1] / run.sampling.temperature
        logprobs = logits.log_softmax(-1).gather(-1, token_ids[1:, None])[:, 0]
        ratio = (logprobs - torch.tensor(batch.sampled_logprobs[row])[1:])[mask].exp()
        advantages = torch.tensor(batch.advantages[row])[1:][mask]
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        gain = torch.where(advantages < 0, torch.maximum(gain, 3.0 * advantages), gain)
        loss = -gain.sum() / batch.num_tokens
        loss.backward()
        yield loss.item()


@pytest.mark.prove(cases=("single-one-row", "split-one-row-of-two", "split-zero-3"))
@pytest.mark.parametrize(
    ("processes", "name"),
    [
        ("alone", "zero-0"),
        ("alone", "zero-1"),
        ("single", "one-row"),
        ("together", "zero-2"),
        ("split", "zero-3"),
        ("split", "one-row-of-two"),
    ],
)
def test_a_step_is_the_token_mean_of_the_global_batch_whatever_the_ranks_rows_and_partitioning(
    workshop: Workshop, say: Say, by_hand: tuple[Weights, list[float], list[float]], processes: str, name: str
) -> None:
    metrics = say(processes)[name][:STEPS]
    weights, losses, norms = by_hand
    loaded = load_file(workshop.model / "model.safetensors")
    assert distance(weights, loaded) > 5e-3  # the steps are no rounding
    assert_near(workshop.weights(name), weights, 1e-5)
    assert [step["loss"] for step in metrics] == pytest.approx(losses, abs=1e-5)
    assert [step["grad_norm"] for step in metrics] == pytest.approx(norms, rel=1e-4)
    assert min(norms) > 0.5  # so clipping took part, and the norm is the one before it


@pytest.mark.prove
def test_bfloat16_follows_float32_a_seed_repeats_and_ranks_may_change(workshop: Workshop, say: Say) -> None:
    alone, single, by_two = say("alone"), say("single"), say("split_again")
    weights = workshop.weights("bfloat16")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert_near(weights, workshop.weights("zero-1"), 1e-2)
    exact = [step["grad_norm"] for step in alone["zero-1"][:STEPS]]
    assert [step["grad_norm"] for step in single["bfloat16"][:STEPS]] == pytest.approx(exact, rel=0.05)
    assert distance(workshop.weights("zero-0", "later"), workshop.weights("repeated", "later")) == 0.0
    assert by_two["zero-0"][2]["grad_norm"] == pytest.approx(alone["zero-0"][-2]["grad_norm"], rel=1e-4)
    assert_near(workshop.weights("zero-0", "by two"), workshop.weights("zero-0", "later"), 1e-5)


@pytest.mark.prove(cases=("single-bfloat16", "split-zero-3"))
@pytest.mark.parametrize(
    ("processes", "name"),
    [
        ("alone", "zero-0"),
        ("single", "bfloat16"),
        ("together", "zero-2"),
        ("together", "reference-of-two"),
        ("split", "zero-3"),
    ],
)
def test_gathered_weights_outlive_a_step(workshop: Workshop, say: Say, processes: str, name: str) -> None:
    assert say(processes)
    assert distance(workshop.weights(name, "behind"), workshop.weights(name)) == 0.0
    assert distance(workshop.weights(name, "later"), workshop.weights(name)) > 1e-4


@pytest.mark.prove(cases=("single_again-bfloat16", "single_again-repeated", "split_again-zero-3"))
@pytest.mark.parametrize(
    ("processes", "name"),
    [
        ("alone_again", "zero-1"),
        ("alone_again", "reference"),
        ("single_again", "repeated"),
        ("single_again", "bfloat16"),
        ("split_again", "zero-3"),
    ],
)
def test_a_fresh_process_goes_on_from_a_checkpoint_bit_for_bit_whatever_its_own_settings(
    workshop: Workshop, say: Say, processes: str, name: str
) -> None:
    results = say(processes)[name]
    assert results[0] == {"version": STEPS, "of": name}  # the caller's own state
    assert distance(workshop.weights(name, "later"), workshop.weights(name)) > 1e-3
    assert distance(workshop.weights(name, "later"), workshop.weights(name, "again")) == 0.0
    before = say(processes.partition("_")[0])[name]
    assert results[1] == before[-3]  # what all random number generators drew
    assert results[2] | {"seconds": 0} == before[-2] | {"seconds": 0}


@pytest.mark.prove(cases=("single_again-skips-0", "split_again-skips-2", "split_again-skips-3"))
@pytest.mark.parametrize(
    ("processes", "name"),
    [
        ("alone_again", "skips-1"),
        ("single_again", "skips-0"),
        ("split_again", "skips-2"),
        ("split_again", "skips-3"),
    ],
)
def test_a_gradient_that_is_not_finite_changes_no_weight_and_is_skipped_again_in_a_replay(
    workshop: Workshop, say: Say, processes: str, name: str
) -> None:
    again = say(processes)[name]
    first = say(processes.partition("_")[0])[name]
    skipped, later = first[3], first[5]
    assert (first[0]["skipped"], skipped["skipped"], later["skipped"]) == (0.0, 1.0, 0.0)
    assert "grad_norm" not in skipped  # what is not finite is no metric
    assert distance(workshop.weights(name, "before"), workshop.weights(name, "skipped")) == 0.0
    assert distance(workshop.weights(name, "skipped"), workshop.weights(name, "later")) > 1e-3
    assert distance(workshop.weights(name, "later"), workshop.weights(name, "again")) == 0.0
    for step, before in zip(again[1:3], (skipped, later), strict=True):
        assert step | {"seconds": 0} == before | {"seconds": 0}
    log = workshop.folder / f"{processes.partition('_')[0]}.0.log"
    assert "step_skipped version=1" in log.read_text()


def test_a_reference_model_that_is_split_pulls_like_a_whole_one(workshop: Workshop, say: Say) -> None:
    first, second = say("alone")["reference"][:STEPS]
    assert first["reference_kl"] == pytest.approx(0, abs=1e-6)  # the policy begins as its reference
    assert second["reference_kl"] > 1e-3
    assert say("together")["reference-of-two"][1]["reference_kl"] == pytest.approx(
        second["reference_kl"], rel=1e-3
    )
    assert_near(workshop.weights("reference-of-two"), workshop.weights("reference"), 1e-5)
    assert distance(workshop.weights("reference"), workshop.weights("zero-1")) > 1e-4


@pytest.mark.prove(cases=("split_again-zero-3",))
@pytest.mark.parametrize(("processes", "name"), [("alone_again", "zero-1"), ("split_again", "zero-3")])
def test_a_saved_folder_is_one_that_transformers_loads(
    workshop: Workshop, say: Say, processes: str, name: str
) -> None:
    say(processes)
    folder = workshop.path(name, "model")
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    model, problems = loaded
    assert not any(problems.values())
    assert model.dtype is torch.float32
    assert model.lm_head.weight is model.model.embed_tokens.weight  # still tied, and saved once
    assert "lm_head.weight" not in workshop.weights(name, "again")
    assert_near(dict(model.named_parameters()), workshop.weights(name, "later"), 0.0)
    assert model.config.attention_dropout == 0.1  # the model's own, not the learner's
    text = "What is 12 + 30?"
    before, after = AutoTokenizer.from_pretrained(workshop.model), AutoTokenizer.from_pretrained(folder)
    assert after(text).input_ids == before(text).input_ids
    assert after.decode(after(text).input_ids) == text


def test_metrics_say_how_far_sampler_is_and_are_alike_on_ranks(say: Say) -> None:
    first, second = say("alone")["zero-0"][:STEPS]
    assert first["tokens"] == make_batch(0, SMALL).num_tokens
    assert (first["lr"], second["lr"]) == (0.5e-2, 1e-2)
    assert first["mismatch_kl"] == pytest.approx(first["sampler_kl"])  # at version 0 no token has a lag
    assert second["mismatch_kl"] != pytest.approx(second["sampler_kl"])
    assert 0 < first["entropy"] <= 5.71  # at most ln 300
    assert first["ratio_mean"] < first["ratio_max"]
    expected = {name: value for name, value in say("alone")["zero-0"][0].items() if name != "seconds"}
    assert {name: say("together")["zero-2"][0][name] for name in expected} == pytest.approx(
        expected, rel=1e-4
    )
    for step in say("alone")["toy"]:
        assert step["loss"] == pytest.approx(-step["toy_gain"], rel=1e-4)  # the mean over the trained tokens
        assert step["toy_largest"] > 0
        assert not [name for name in step if name.startswith(("ratio_mean", "ratio_max", "clip"))]
    assert say("alone")["toy"][0]["loss"] != say("alone")["toy"][1]["loss"]


def test_a_checkpoint_that_does_not_fit_is_refused_by_name(say: Say) -> None:
    other_stage, missing = say("alone_again")["refused"]
    assert "is a checkpoint of {'ranks': 1, 'zero_stage': 0, 'dtype': 'float32'}" in other_stage
    assert "this learner is {'ranks': 1, 'zero_stage': 1, 'dtype': 'float32'}" in other_stage
    assert "no.thing holds no whole checkpoint: state.json is missing" in missing


@pytest.mark.prove
@pytest.mark.parametrize(("processes", "broken_rank"), [("broken", 1), ("split_again", 0)])
def test_a_failing_rank_is_named(workshop: Workshop, say: Say, processes: str, broken_rank: int) -> None:
    assert "fails" not in say(processes)  # it has no result, and the exit code was 1
    log = (workshop.folder / f"{processes}.{broken_rank}.log").read_text()
    assert f"rank failed rank={broken_rank} command=step" in log
    assert "RuntimeError: this rank has no room" in log


@pytest.mark.parametrize(
    ("warmup_steps", "rates"), [(0, [1.0, 1.0, 1.0]), (1, [1.0, 1.0, 1.0]), (4, [0.25, 0.5, 0.75, 1.0, 1.0])]
)
def test_the_rate_rises_in_a_line_and_then_stays(warmup_steps: int, rates: list[float]) -> None:
    optimizer = OptimizerConfig(lr=1.0, warmup_steps=warmup_steps)
    assert [learning_rate(optimizer, version, steps=100) for version in range(len(rates))] == rates


ROOT = math.sqrt(3) / 4


@pytest.mark.parametrize(
    ("keys", "rates"),
    [
        ({"schedule": "linear", "warmup_steps": 2}, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ({"schedule": "linear", "warmup_share": 1 / 3, "final_share": 0.2}, [0.5, 1, 1, 0.8, 0.6, 0.4, 0.2]),
        ({"schedule": "cosine", "warmup_steps": 0}, [1, 0.5 + ROOT, 0.75, 0.5, 0.25, 0.5 - ROOT, 0]),
        ({"schedule": "constant", "warmup_share": 0.5}, [1 / 3, 2 / 3, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_a_schedule_falls_to_its_share_at_the_last_step(keys: dict[str, Any], rates: list[float]) -> None:
    optimizer = OptimizerConfig.model_validate({"lr": 1.0} | keys)
    found = [learning_rate(optimizer, version, steps=6) for version in range(len(rates))]
    assert found == pytest.approx(rates, abs=1e-12)


@pytest.mark.parametrize(
    ("dtype", "zero", "reason"),
    [
        ("bfloat16", {"stage": 0}, "bfloat16 needs learner.zero.stage of at least 1"),
        (
            "float32",
            {"stage": 2, "offload_weights": True},
            "offload_weights needs learner.zero.stage=3, not 2",
        ),
        (
            "float32",
            {"stage": 0, "offload_optimizer": True},
            "offload_optimizer needs learner.zero.stage of at",
        ),
    ],
)
def test_combinations_without_an_answer_are_refused(dtype: str, zero: dict[str, Any], reason: str) -> None:
    with pytest.raises(RunFailed, match=reason):
        deepspeed_config(tiny_run(Path("m"), dtype=dtype, zero=zero), world_size=1, on_cuda=False)


def test_offloading_is_for_a_gpu_and_brings_deepspeeds_own_optimizer() -> None:
    run = tiny_run(Path("m"), zero={"stage": 3, "offload_optimizer": True, "offload_weights": True})
    on_cuda = deepspeed_config(run, world_size=2, on_cuda=True)
    assert on_cuda["zero_optimization"].keys() == {"stage", "offload_optimizer", "offload_param"}
    assert on_cuda["optimizer"]["params"]["lr"] == run.learner.optimizer.lr
    on_cpu = deepspeed_config(run, world_size=2, on_cuda=False)
    assert on_cpu["zero_optimization"].keys() == {"stage"}
    assert "optimizer" not in on_cpu


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(("processes", "stage"), [("alone", 1), ("split", 3)])
def test_a_denied_head_trains_and_is_split(workshop: Workshop, say: Say, processes: str, stage: int) -> None:
    assert say(processes)
    expected = load_file(workshop.folder / f"own-head-{stage}" / "model.safetensors")
    assert distance(workshop.weights(f"loaded-{stage}"), expected) == 0
    assert workshop.weights(f"loaded-{stage}").keys() == expected.keys()
    trained = workshop.weights(f"trained-{stage}")
    assert distance({"head": trained["lm_head.weight"]}, {"head": expected["lm_head.weight"]}) > 1e-4
    if processes == "split":
        assert say("alone")
        assert_near(trained, workshop.weights("trained-1"), 1e-4)


def test_a_row_over_two_ranks_and_varlen_attention_train_as_sdpa_alone(workshop: Workshop, say: Say) -> None:
    expected = say("alone")["zero-1"]
    for processes, name in (("together", "sequence"), ("alone", "varlen")):
        assert_same_steps(workshop, say(processes)[name], expected, names=(name, "zero-1"))
    log = (workshop.folder / "alone.0.log").read_text()
    assert f"attention chosen name={VARLEN} why='learner.attention=varlen'" in log


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("processes", "name", "stage"), [("alone", "compared", 1), ("split", "compared-of-two", 3)]
)
def test_a_comparison_is_what_transformers_says_on_any_number_of_ranks_and_changes_nothing(
    workshop: Workshop, say: Say, processes: str, name: str, stage: int
) -> None:
    model = AutoModelForCausalLM.from_pretrained(workshop.model).eval()
    largest, k3, tokens = [], [], []
    for group in random_groups(0, policy_version=0):
        prompt = group.rollout.prompt.token_ids.tolist()
        for completion, reward in zip(group.rollout.completions, group.rewards, strict=True):
            if reward is None:
                continue
            ratios = []
            for segment in completion.segments:
                context = segment.prompt_ids.tolist() or prompt
                ids = torch.tensor([context + segment.token_ids.tolist()])
                with torch.no_grad():
                    logprobs = (model(input_ids=ids).logits[0] / 0.8).log_softmax(-1)[:-1]
                own = logprobs.gather(-1, ids[0, 1:, None])[len(context) - 1 :, 0]
                apart = own - torch.from_numpy(segment.logprobs)
                ratios.append(apart[torch.from_numpy(segment.trains)].double())
            log_ratio = torch.cat(ratios)
            largest.append(log_ratio.abs().max().item())
            k3.append((log_ratio.expm1() - log_ratio).sum().item())
            tokens.append(len(log_ratio))
    found = say(processes)[name][1]
    assert found["tokens"] == tokens
    assert found["largest"] == pytest.approx(largest, abs=1e-4)
    assert found["k3"] == pytest.approx(k3, rel=1e-3)
    assert distance(workshop.weights(f"before-{stage}"), workshop.weights(f"compared-{stage}")) == 0
