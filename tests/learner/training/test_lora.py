"""LoRA on DeepSpeed: what trains, what is published, and what an adapter's folder holds; and ZeRO's stages with a reference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from broker.errors import RunFailed
from broker.messages import Announcement
from generators.weight_sync.adapter import MergingReceiver
from generators.weight_sync.receiver import Received
from learner.training.lora import ADAPTER, check_adapter
from tests.support.policy_workshop import (
    SMALL,
    Workshop,
    assert_near,
    distance,
    open_workshop,
    steps_from,
    zero,
)
from tests.support.tiny import tiny_run, write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(600)]

STEPS = 20
LORA: dict[str, Any] = {"lora": {"rank": 4, "alpha": 8}}
ALONE: dict[str, Any] = {"lora": LORA["lora"] | {"publish": "adapter"}}
PULLED = {"objective": {"kl": {"coef": 0.3}}}
STAGES = [0, 1, 2, 3]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("lora")) as workshop:
        yield workshop


def trained(workshop: Workshop, name: str, learner: dict[str, Any], steps: int = STEPS) -> dict[str, Any]:
    return {
        "model": str(workshop.model),
        "learner": learner,
        "do": [
            *steps_from(0, steps, SMALL),
            ["save_weights", workshop.path(name)],
            ["save_model", workshop.path(name, "model")],
        ],
    }


@pytest.fixture(scope="module")
def alone(workshop: Workshop) -> dict[str, list[Any]]:
    """Return what one rank says that splits nothing: of all weights, of adapters, and of adapters with a loaded reference."""
    loaded = {"objective": {"kl": {"coef": 0.3, "reference": str(workshop.model)}}}
    plans = {
        "full": trained(workshop, "full", zero(0, **PULLED)),
        "lora": trained(workshop, "lora", zero(0, **LORA, **PULLED)),
        "loaded": trained(workshop, "loaded", zero(0, **LORA, **loaded)),
        "life": workshop.life("life", zero(0, **LORA, **PULLED)),
        "published": trained(workshop, "published", zero(0, **ALONE, **PULLED)),
    }
    return workshop.do("alone", plans, ranks=1)


@pytest.fixture(scope="module")
def split(workshop: Workshop) -> dict[str, list[Any]]:
    """Return what two ranks say, for each stage."""
    plans = {
        f"{what}-{stage}": trained(workshop, f"{what}-{stage}", zero(stage, **more, **PULLED))
        for stage in STAGES
        for what, more in (("full", {}), ("lora", LORA))
    }
    plans["published-3"] = trained(workshop, "published-3", zero(3, **ALONE, **PULLED))
    plans["life-3"] = workshop.life("life-3", zero(3, **LORA, **PULLED))
    return workshop.do("split", plans, ranks=2)


@pytest.mark.prove
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["full", "lora"])
def test_twenty_steps_with_a_reference_do_not_depend_on_the_stage(
    workshop: Workshop, alone: dict[str, list[Any]], split: dict[str, list[Any]], what: str, stage: int
) -> None:
    expected = workshop.weights(what)
    assert distance(expected, load_file(workshop.model / "model.safetensors")) > 1e-2
    assert_near(workshop.weights(f"{what}-{stage}"), expected, 1e-4)
    for one, other in zip(split[f"{what}-{stage}"][:STEPS], alone[what][:STEPS], strict=True):
        assert one["reference_kl"] == pytest.approx(other["reference_kl"], rel=1e-3, abs=1e-5)


@pytest.mark.prove
def test_the_reference_is_the_model_without_its_adapter(
    workshop: Workshop, alone: dict[str, list[Any]]
) -> None:
    assert alone["lora"][0]["reference_kl"] == 0  # a new adapter changes nothing
    assert alone["lora"][-3]["reference_kl"] > 1e-3
    assert distance(workshop.weights("lora"), workshop.weights("loaded")) == 0


@pytest.mark.prove
@pytest.mark.usefixtures("alone")
def test_adapters_train_and_nothing_else(workshop: Workshop) -> None:
    before, after = load_file(workshop.model / "model.safetensors"), workshop.weights("lora")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "_proj.weight" in name}
    assert before.keys() == after.keys()  # names that every engine knows


@pytest.mark.prove
def test_the_merged_weights_do_what_the_adapter_does(workshop: Workshop, alone: dict[str, list[Any]]) -> None:
    from peft import PeftModel

    assert alone
    folder = Path(workshop.path("lora", "model"))
    base = AutoModelForCausalLM.from_pretrained(workshop.model, dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, folder / ADAPTER).eval()
    merged = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, 300, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = adapted(input_ids=ids).logits, merged(input_ids=ids).logits
        with adapted.disable_adapter():
            assert (adapted(input_ids=ids).logits - expected).abs().max() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)  # logits up to 30
    assert load_file(folder / "model.safetensors").keys() == workshop.weights("lora").keys()


class Brings:
    """A receiver that brings one file."""

    is_slow = False

    def __init__(self, file: Path) -> None:
        self.file = file
        self.returned: list[Received] = []
        self.is_closed = False

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        return Received(version=STEPS, files=(self.file,))

    def loaded(self, received: Received) -> None:
        self.returned.append(received)

    def close(self) -> None:
        self.is_closed = True


def merging(workshop: Workshop, file: Path) -> tuple[MergingReceiver, Brings]:
    run, brings = tiny_run(workshop.model, **ALONE), Brings(file)
    assert run.learner.lora is not None
    return MergingReceiver(brings, run.model, run.learner.lora), brings


@pytest.mark.prove
@pytest.mark.usefixtures("alone", "split")
@pytest.mark.parametrize(("name", "like"), [("published", "lora"), ("published-3", "lora-3")])
def test_a_generator_merges_an_adapter_to_the_bits_that_the_learner_would_have_published(
    workshop: Workshop, name: str, like: str
) -> None:
    adapter = Path(workshop.path(name))
    assert adapter.stat().st_size < Path(workshop.path(like)).stat().st_size / 10
    receiver, brings = merging(workshop, adapter)
    received = receiver.receive([], held=0)
    assert received.version == STEPS
    assert distance(load_file(received.files[0]), workshop.weights(like)) == 0
    receiver.loaded(received)
    assert not received.files[0].exists()
    assert [one.files[0] for one in brings.returned] == [adapter]
    receiver.close()
    assert brings.is_closed
    assert not received.files[0].parent.exists()


@pytest.mark.prove
@pytest.mark.usefixtures("alone", "split")
@pytest.mark.parametrize(("name", "stage", "ranks"), [("life", 0, 1), ("life-3", 3, 2)])
def test_a_step_behind_a_checkpoint_is_trained_again_bit_for_bit(
    workshop: Workshop, name: str, stage: int, ranks: int
) -> None:
    learner = zero(stage, **LORA, **PULLED)
    workshop.do(f"again-{name}", {name: workshop.second_life(name, learner)}, ranks=ranks)
    assert distance(workshop.weights(name, "again"), workshop.weights(name, "later")) == 0


@pytest.mark.prove
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("stage", "ranks"), [(1, 1), (3, 2)])
def test_a_run_begins_with_an_adapter(workshop: Workshop, stage: int, ranks: int) -> None:
    adapter = Path(workshop.path("lora", "model")) / ADAPTER
    learner = zero(stage, lora=LORA["lora"] | {"adapter": str(adapter)})
    name = f"begun-{stage}"
    workshop.do(name, {name: trained(workshop, name, learner, steps=0)}, ranks=ranks)
    assert distance(workshop.weights(name), workshop.weights("lora")) == 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model, and an adapter of rank 4 for it."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter")
    model = write_tiny_model(folder / "model")
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(model), config).save_pretrained(
        str(folder / "adapter")
    )
    return model, folder / "adapter"


def checked(model: Path, **lora: Any) -> None:
    check_adapter(tiny_run(model, lora=lora))


def test_an_adapter_of_this_model_is_taken_and_another_is_refused_by_name(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    model, adapter = folders
    checked(model, rank=4, alpha=8, adapter=str(adapter))
    with pytest.raises(RunFailed, match=r"its r is 4, and the run's is 8: set learner\.lora\.rank"):
        checked(model, rank=8, alpha=8, adapter=str(adapter))
    with pytest.raises(RunFailed, match=r"other layers: .*down_proj.*and None in this model with"):
        checked(model, rank=4, alpha=8, adapter=str(adapter), targets=["q_proj", "v_proj"])
    other = write_tiny_model(tmp_path / "other")
    described = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(described | {"intermediate_size": 800}))
    with pytest.raises(RunFailed, match=r"for another model or other layers: .*down_proj"):
        checked(other, rank=4, alpha=8, adapter=str(adapter))


def test_what_is_no_adapter_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, adapter = folders
    with pytest.raises(RunFailed, match=r"learner\.lora\.targets=\('nothing_proj',\): .*nothing_proj"):
        checked(model, rank=4, targets=["nothing_proj"])
    with pytest.raises(RunFailed, match=r"no adapter as PEFT writes it: .*adapter_config\.json"):
        checked(model, rank=4, adapter=str(tmp_path))
    dora = shutil.copytree(adapter, tmp_path / "dora")
    described = json.loads((dora / "adapter_config.json").read_text())
    (dora / "adapter_config.json").write_text(json.dumps(described | {"use_dora": True}))
    with pytest.raises(RunFailed, match="it was made with use_dora"):
        checked(model, rank=4, alpha=8, adapter=str(dora))
