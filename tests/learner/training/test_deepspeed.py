"""The policy on DeepSpeed itself: ZeRO 0 and 1 in one process, 2 and 3 in two, against a step written in plain torch.

Processes are dear (seconds of imports), so that each of the four here goes through several policies, and the tests look
at what they left behind. The two of a pair are separate on purpose: a checkpoint has to do in a fresh process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from broker.errors import RunFailed
from config.learner import OptimizerConfig
from config.run import Run
from learner.training.deepspeed import learning_rate
from learner.training.engine_config import deepspeed_config
from tests.support.policy_driver import make_batch
from tests.support.policy_workshop import (
    LARGE,
    SMALL,
    STEPS,
    TOY,
    Weights,
    Workshop,
    assert_near,
    distance,
    steps_from,
    zero,
)
from tests.support.tiny import random_groups, tiny_run, write_own_head

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(300)]

WITH_REFERENCE = {"kl": {"coef": 0.3}, "entropy_coef": 0.05, "aggregate": "prompt"}


Said = dict[str, list[Any]]


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


@pytest.fixture(scope="module")
def alone(workshop: Workshop) -> Said:
    """One process: ZeRO 0 and 1."""
    toy = zero(1, objective={"type": "custom", "import_path": TOY})
    plan = {
        "zero-0": workshop.life("zero-0", zero(0)),
        "zero-1": workshop.life("zero-1", zero(1)),
        "toy": {"model": str(workshop.model), "learner": toy, "do": steps_from(0, 2, SMALL)},
        "skips-1": workshop.skipping_life("skips-1", zero(1)),
        "reference": workshop.life("reference", zero(1, objective=WITH_REFERENCE)),
        "compared": compared(workshop, 1),
        "own-head": own_head(workshop, 1),
    }
    return workshop.do("alone", plan, ranks=1)


@pytest.fixture(scope="module")
def single(workshop: Workshop) -> Said:
    """One process again, with what `make prove-suite` looks at besides."""
    checkpointed = zero(1, gradient_checkpointing=True)
    plan = {
        "one-row": workshop.life("one-row", checkpointed, tokens_per_micro_batch=LARGE),
        "repeated": workshop.life("repeated", zero(0)),
        "bfloat16": workshop.life("bfloat16", zero(1), dtype="bfloat16"),
        "skips-0": workshop.skipping_life("skips-0", zero(0)),
    }
    return workshop.do("single", plan, ranks=1)


@pytest.fixture(scope="module")
def together(workshop: Workshop) -> Said:
    """Two processes: ZeRO 3 and 2."""
    plan = {
        # First, since DeepSpeed hears of the ranks from no engine before it.
        "reference-of-two": workshop.life("reference-of-two", zero(3, objective=WITH_REFERENCE)),
        "zero-2": workshop.life("zero-2", zero(2)),
        "compared-of-two": compared(workshop, 3),
        "own-head-of-two": own_head(workshop, 3),
    }
    return workshop.do("together", plan, ranks=2)


@pytest.fixture(scope="module")
def broken(workshop: Workshop) -> Said:
    """Two processes, as the learner starts them. The second one fails, and takes the first with it."""
    return workshop.do("broken", {"fails": workshop.failure(zero(2), broken_rank=1)}, ranks=2, code=1)


@pytest.fixture(scope="module")
def split(workshop: Workshop) -> Said:
    """Two processes again, with what `make prove-suite` looks at besides."""
    checkpointed = zero(3, gradient_checkpointing=True)
    plan = {
        "zero-3": workshop.life("zero-3", zero(3)),
        "one-row-of-two": workshop.life("one-row-of-two", checkpointed, tokens_per_micro_batch=LARGE),
        "skips-2": workshop.skipping_life("skips-2", zero(2)),
        "skips-3": workshop.skipping_life("skips-3", zero(3)),
    }
    return workshop.do("split", plan, ranks=2)


@pytest.fixture(scope="module")
def alone_again(workshop: Workshop, alone: Said) -> Said:
    """Return a fresh process that goes on from the checkpoints of the first."""
    assert alone
    others = workshop.path("zero-0", "checkpoint"), str(workshop.folder / "nothing")
    refused = [["load_checkpoint", folder] for folder in others]
    plan = {
        "zero-1": workshop.second_life("zero-1", zero(1)),
        "reference": workshop.second_life("reference", zero(1, objective=WITH_REFERENCE)),
        "skips-1": workshop.skipping_again("skips-1", zero(1)),
        "refused": {"model": str(workshop.model), "learner": zero(1), "do": refused},
    }
    return workshop.do("alone_again", plan, ranks=1)


@pytest.fixture(scope="module")
def single_again(workshop: Workshop, single: Said) -> Said:
    """Return a fresh process that goes on from their checkpoints."""
    assert single
    plan = {
        "repeated": workshop.second_life("repeated", zero(0)),
        "bfloat16": workshop.second_life("bfloat16", zero(1), dtype="bfloat16"),
        "skips-0": workshop.skipping_again("skips-0", zero(0)),
    }
    return workshop.do("single_again", plan, ranks=1)


@pytest.fixture(scope="module")
def split_again(workshop: Workshop, split: Said, alone: Said) -> Said:
    """Two of them, once from a checkpoint of one. At the end the first one fails, and takes the second with it."""
    assert split
    assert alone
    plan = {
        "zero-3": workshop.second_life("zero-3", zero(3)),
        "zero-0": workshop.second_life("zero-0", zero(0), again="by two"),
        "skips-2": workshop.skipping_again("skips-2", zero(2)),
        "skips-3": workshop.skipping_again("skips-3", zero(3)),
        "fails": workshop.failure(zero(2), broken_rank=0),
    }
    return workshop.do("split_again", plan, ranks=2, code=1)


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
    request: pytest.FixtureRequest,
    workshop: Workshop,
    by_hand: tuple[Weights, list[float], list[float]],
    processes: str,
    name: str,
) -> None:
    metrics = request.getfixturevalue(processes)[name][:STEPS]
    weights, losses, norms = by_hand
    loaded = load_file(workshop.model / "model.safetensors")
    assert distance(weights, loaded) > 5e-3  # the steps are no rounding
    assert_near(workshop.weights(name), weights, 1e-5)
    assert [step["loss"] for step in metrics] == pytest.approx(losses, abs=1e-5)
    assert [step["grad_norm"] for step in metrics] == pytest.approx(norms, rel=1e-4)
    assert min(norms) > 0.5  # so clipping took part, and the norm is the one before it


@pytest.mark.prove
def test_bfloat16_follows_float32_as_far_as_it_can(workshop: Workshop, alone: Said, single: Said) -> None:
    weights = workshop.weights("bfloat16")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert_near(weights, workshop.weights("zero-1"), 1e-2)
    exact = [step["grad_norm"] for step in alone["zero-1"][:STEPS]]
    assert [step["grad_norm"] for step in single["bfloat16"][:STEPS]] == pytest.approx(exact, rel=0.05)


@pytest.mark.prove
def test_the_same_seed_and_batches_give_the_same_weights_bit_for_bit(
    workshop: Workshop, alone: Said, single: Said
) -> None:
    assert alone
    assert single
    assert distance(workshop.weights("zero-0", "later"), workshop.weights("repeated", "later")) == 0.0


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
def test_gathered_weights_stay_as_they_were_while_the_next_step_is_taken(
    request: pytest.FixtureRequest, workshop: Workshop, processes: str, name: str
) -> None:
    assert request.getfixturevalue(processes)
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
    request: pytest.FixtureRequest, workshop: Workshop, processes: str, name: str
) -> None:
    results = request.getfixturevalue(processes)[name]
    assert results[0] == {"version": STEPS, "of": name}  # the caller's own state
    assert distance(workshop.weights(name, "later"), workshop.weights(name)) > 1e-3
    assert distance(workshop.weights(name, "later"), workshop.weights(name, "again")) == 0.0
    before = request.getfixturevalue(processes.partition("_")[0])[name]
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
    request: pytest.FixtureRequest, workshop: Workshop, processes: str, name: str
) -> None:
    again = request.getfixturevalue(processes)[name]
    first = request.getfixturevalue(processes.partition("_")[0])[name]
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


def test_a_reference_model_that_is_split_among_ranks_pulls_like_a_whole_one(
    workshop: Workshop, alone: Said, together: Said
) -> None:
    first, second = alone["reference"][:STEPS]
    assert first["reference_kl"] == pytest.approx(0, abs=1e-6)  # the policy begins as its reference
    assert second["reference_kl"] > 1e-3
    assert together["reference-of-two"][1]["reference_kl"] == pytest.approx(second["reference_kl"], rel=1e-3)
    assert_near(workshop.weights("reference-of-two"), workshop.weights("reference"), 1e-5)
    assert distance(workshop.weights("reference"), workshop.weights("zero-1")) > 1e-4


def test_an_objective_of_ones_own_names_its_own_metrics(alone: Said) -> None:
    for step in alone["toy"]:
        assert step["loss"] == pytest.approx(-step["toy_gain"], rel=1e-4)  # the mean over the trained tokens
        assert step["toy_largest"] > 0
        assert not [name for name in step if name.startswith(("ratio_mean", "ratio_max", "clip"))]
    assert alone["toy"][0]["loss"] != alone["toy"][1]["loss"]


@pytest.mark.prove
def test_the_number_of_ranks_may_change_where_nothing_is_split_among_them(
    workshop: Workshop, split_again: Said, alone: Said
) -> None:
    assert split_again["zero-0"][2]["grad_norm"] == pytest.approx(alone["zero-0"][-2]["grad_norm"], rel=1e-4)
    assert_near(workshop.weights("zero-0", "by two"), workshop.weights("zero-0", "later"), 1e-5)


@pytest.mark.prove(cases=("split_again-zero-3",))
@pytest.mark.parametrize(("processes", "name"), [("alone_again", "zero-1"), ("split_again", "zero-3")])
def test_a_saved_folder_is_one_that_transformers_loads(
    request: pytest.FixtureRequest, workshop: Workshop, processes: str, name: str
) -> None:
    request.getfixturevalue(processes)
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


def test_metrics_say_how_far_learner_and_sampler_are_apart(alone: Said) -> None:
    first, second = alone["zero-0"][:STEPS]
    assert first["tokens"] == make_batch(0, SMALL).num_tokens
    assert (first["lr"], second["lr"]) == (0.5e-2, 1e-2)
    assert first["mismatch_kl"] == pytest.approx(first["sampler_kl"])  # at version 0 no token has a lag
    assert second["mismatch_kl"] != pytest.approx(second["sampler_kl"])
    assert 0 < first["entropy"] <= 5.71  # at most ln 300
    assert first["ratio_mean"] < first["ratio_max"]


def test_statistics_are_alike_on_ranks(alone: Said, together: Said) -> None:
    expected = {name: value for name, value in alone["zero-0"][0].items() if name != "seconds"}
    assert {name: together["zero-2"][0][name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_a_checkpoint_that_does_not_fit_is_refused_by_name(alone_again: Said) -> None:
    other_stage, missing = alone_again["refused"]
    assert "is a checkpoint of {'ranks': 1, 'zero_stage': 0, 'dtype': 'float32'}" in other_stage
    assert "this learner is {'ranks': 1, 'zero_stage': 1, 'dtype': 'float32'}" in other_stage
    assert "nothing holds no whole checkpoint: state.json is missing" in missing


@pytest.mark.prove
@pytest.mark.parametrize(("processes", "broken_rank"), [("broken", 1), ("split_again", 0)])
def test_a_rank_that_fails_ends_all_and_is_named(
    request: pytest.FixtureRequest, workshop: Workshop, processes: str, broken_rank: int
) -> None:
    assert "fails" not in request.getfixturevalue(processes)  # it has no result, and the exit code was 1
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


@pytest.mark.usefixtures("alone", "together")
def test_a_head_that_the_config_denies_trains_also_where_it_is_split(workshop: Workshop) -> None:
    expected = load_file(workshop.folder / "own-head-1" / "model.safetensors")
    for stage in (1, 3):
        assert distance(workshop.weights(f"loaded-{stage}"), expected) == 0
        assert workshop.weights(f"loaded-{stage}").keys() == expected.keys()
        trained = workshop.weights(f"trained-{stage}")
        assert distance({"head": trained["lm_head.weight"]}, {"head": expected["lm_head.weight"]}) > 1e-4
    assert_near(workshop.weights("trained-3"), workshop.weights("trained-1"), 1e-4)


def test_a_comparison_is_what_transformers_says_on_any_number_of_ranks_and_changes_nothing(
    workshop: Workshop, alone: Said, together: Said
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
    for name, results, stage in (("compared", alone, 1), ("compared-of-two", together, 3)):
        found = results[name][1]
        assert found["tokens"] == tokens
        assert found["largest"] == pytest.approx(largest, abs=1e-4)
        assert found["k3"] == pytest.approx(k3, rel=1e-3)
        assert distance(workshop.weights(f"before-{stage}"), workshop.weights(f"compared-{stage}")) == 0
