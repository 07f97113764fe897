"""A head that a checkpoint has and its config denies: one model for the learner, both engines, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from broker.errors import RunFailed
from broker.weight_files import FILE, INDEX
from config.run import ModelConfig
from generators.engines.hf.model import build_model, build_skeleton, check_weights, replace_weights
from learner.base_model.own_head import has_own_head, settled
from learner.training.model_files import load_model, write_model
from tests.support.tiny import tiny_run, write_own_head, write_tiny_model

pytestmark = pytest.mark.model

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
IDS = torch.arange(3, 40)[None]


def source(folder: Path, **model: object) -> ModelConfig:
    return ModelConfig.model_validate({"path": str(folder), "dtype": "float32"} | model)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    weights = load_file(folder / FILE)
    change(weights)
    save_file(weights, folder / FILE, metadata={"format": "pt"})
    return folder


def with_copy(folder: Path) -> Path:
    """The head is there, and is the embedding: as `.bin` checkpoints were converted."""
    return rewrite(write_tiny_model(folder), lambda some: some.update({HEAD: some[EMBEDDING].clone()}))


def with_head_of_another_type(folder: Path) -> Path:
    """The head is the embedding, in a type that holds all of it."""

    def change(weights: dict[str, torch.Tensor]) -> None:
        weights[EMBEDDING] = weights[EMBEDDING].bfloat16()
        weights[HEAD] = weights[EMBEDDING].float()

    return rewrite(write_tiny_model(folder), change)


def with_one_other_number(folder: Path) -> Path:
    def change(weights: dict[str, torch.Tensor]) -> None:
        weights[HEAD] = weights[EMBEDDING].clone()
        weights[HEAD][-1, -1] += 1

    return rewrite(write_tiny_model(folder), change)


def with_head_alone(folder: Path) -> Path:
    """The embedding is not there: transformers ties it to the head."""
    return rewrite(write_tiny_model(folder), lambda some: some.update({HEAD: some.pop(EMBEDDING)}))


def in_two_files(folder: Path) -> Path:
    """A head of its own, in another file than the embedding."""
    weights = load_file(write_own_head(folder) / FILE)
    (folder / FILE).unlink()
    parts = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    save_file({n: t for n, t in weights.items() if n != HEAD}, folder / parts[0], metadata={"format": "pt"})
    save_file({HEAD: weights[HEAD]}, folder / parts[1], metadata={"format": "pt"})
    places = {name: parts[name == HEAD] for name in weights}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def untied(folder: Path) -> Path:
    return write_tiny_model(folder, tied=False)


def nested(folder: Path) -> Path:
    """Where the config says nothing of it, and the class's default is untied."""
    write_tiny_model(folder, tied=False)
    described = json.loads((folder / "config.json").read_text())
    described.pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(json.dumps(described))
    return folder


@pytest.mark.parametrize(
    ("make", "is_own"),
    [
        (write_tiny_model, False),
        (with_copy, False),
        (with_head_of_another_type, False),
        (with_head_alone, False),
        (untied, False),
        (nested, False),
        (write_own_head, True),
        (with_one_other_number, True),
        (in_two_files, True),
    ],
)
def test_a_head_that_differs_is_the_checkpoints_own(
    tmp_path: Path, make: Callable[[Path], Path], *, is_own: bool
) -> None:
    folder = make(tmp_path / "model")
    assert has_own_head(source(folder)) is is_own
    run = settled(tiny_run(folder))
    assert run.model.tie_word_embeddings is (False if is_own else None)
    # One model on both sides, and in what is written.
    learner = load_model(run.model, attention="sdpa", gradient_checkpointing=False, own_head=is_own).eval()
    weights = {name: parameter.detach() for name, parameter in learner.named_parameters()}
    (tmp_path / "out").mkdir()
    write_model(weights, tmp_path / "out", source=source(folder), shard_bytes=10**9)
    generator = build_model(run.model)
    replace_weights(generator, [tmp_path / "out" / FILE])
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        expected = learner(input_ids=IDS).logits
        torch.testing.assert_close(generator(input_ids=IDS).logits, expected)
        torch.testing.assert_close(exported(input_ids=IDS).logits, expected)
    described = json.loads((tmp_path / "out" / "config.json").read_text())
    has_head = HEAD in load_file(tmp_path / "out" / FILE)
    assert bool(described.get("tie_word_embeddings", False)) is not has_head


def test_a_generator_that_does_not_know_of_the_head_would_sample_from_another_model(tmp_path: Path) -> None:
    folder = write_own_head(tmp_path / "model")
    learner = load_model(source(folder), attention="sdpa", gradient_checkpointing=False, own_head=True).eval()
    unaware = build_model(source(folder))
    replace_weights(unaware, [folder / FILE])
    with torch.no_grad():
        difference = (unaware(input_ids=IDS).logits - learner(input_ids=IDS).logits).abs().max()
    assert difference > 0.5  # what the first look ends a run for


def test_a_head_that_is_asked_for_and_not_there_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    told = r"tie_word_embeddings=false, and .* has no lm_head\.weight of its own"
    with pytest.raises(RunFailed, match=told):
        has_own_head(source(folder, tie_word_embeddings=False))


def test_weights_without_the_head_are_refused_where_it_is_the_checkpoints_own(tmp_path: Path) -> None:
    tied = write_tiny_model(tmp_path / "tied")
    skeleton = build_skeleton(source(tied, tie_word_embeddings=False))
    with pytest.raises(RunFailed, match=r"missing lm_head\.weight"):
        check_weights(skeleton, [tied / FILE])


def test_a_model_without_a_usable_config_is_left_to_those_who_load_it(tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "nowhere")
    assert settled(run) is run
