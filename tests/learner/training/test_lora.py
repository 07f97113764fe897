"""LoRA on DeepSpeed: what trains, what is published, and what an adapter's folder holds; and ZeRO's stages with a reference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
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
from tests.support.policy_workshop import SMALL, Workshop, assert_near, distance, steps_from, zero
from tests.support.tiny import tiny_run, write_tiny_model

pytestmark = [pytest.mark.model, pytest.mark.together("training"), pytest.mark.timeout(600)]

Said = dict[str, list[Any]]
STEPS = 20
LORA: dict[str, Any] = {"lora": {"rank": 4, "alpha": 8}}
ALONE: dict[str, Any] = {"lora": LORA["lora"] | {"publish": "adapter"}}
PULLED = {"objective": {"kl": {"coef": 0.3}}}
STAGES = [0, 1, 2, 3]


def trained(workshop: Workshop, name: str, learner: dict[str, Any], steps: int = STEPS) -> dict[str, Any]:
    saves = [["save_weights", workshop.path(name)], ["save_model", workshop.path(name, "model")]]
    return {"model": str(workshop.model), "learner": learner, "do": [*steps_from(0, steps, SMALL), *saves]}


PLANS: dict[str, Callable[[Workshop], dict[str, Any]]] = {
    # One rank that splits nothing: of all weights, of adapters, and of adapters with a loaded reference.
    "alone": lambda workshop: {
        "full": trained(workshop, "full", zero(0, **PULLED)),
        "lora": trained(workshop, "lora", zero(0, **LORA, **PULLED)),
        "loaded": trained(
            workshop,
            "loaded",
            zero(0, **LORA, objective={"kl": {"coef": 0.3, "reference": str(workshop.model)}}),
        ),
        "life": workshop.life("life", zero(0, **LORA, **PULLED)),
        "published": trained(workshop, "published", zero(0, **ALONE, **PULLED)),
    },
    "split": lambda workshop: (
        {  # two ranks, for each stage
            f"{what}-{stage}": trained(workshop, f"{what}-{stage}", zero(stage, **more, **PULLED))
            for stage in STAGES
            for what, more in (("full", {}), ("lora", LORA))
        }
        | {
            "published-3": trained(workshop, "published-3", zero(3, **ALONE, **PULLED)),
            "life-3": workshop.life("life-3", zero(3, **LORA, **PULLED)),
        }
    ),
}


@pytest.fixture(scope="module")
def alone(workshop: Workshop) -> Said:
    return workshop.do("alone", PLANS["alone"](workshop), ranks=1)


@pytest.fixture(scope="module")
def split(workshop: Workshop) -> Said:
    return workshop.do("split", PLANS["split"](workshop), ranks=2)


@pytest.mark.prove
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["full", "lora"])
def test_twenty_steps_with_a_reference_do_not_depend_on_the_stage(
    workshop: Workshop, alone: Said, split: Said, what: str, stage: int
) -> None:
    expected = workshop.weights(what)
    assert distance(expected, load_file(workshop.model / "model.safetensors")) > 1e-2
    assert_near(workshop.weights(f"{what}-{stage}"), expected, 1e-4)
    for one, other in zip(split[f"{what}-{stage}"][:STEPS], alone[what][:STEPS], strict=True):
        assert one["reference_kl"] == pytest.approx(other["reference_kl"], rel=1e-3, abs=1e-5)


@pytest.mark.prove
def test_a_reference_has_no_adapter_and_adapters_train_alone(workshop: Workshop, alone: Said) -> None:
    assert alone["lora"][0]["reference_kl"] == 0  # a new adapter changes nothing
    assert alone["lora"][-3]["reference_kl"] > 1e-3
    assert distance(workshop.weights("lora"), workshop.weights("loaded")) == 0
    before, after = load_file(workshop.model / "model.safetensors"), workshop.weights("lora")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "_proj.weight" in name}
    assert before.keys() == after.keys()  # names that every engine knows


@pytest.mark.prove
def test_the_merged_weights_do_what_the_adapter_does(workshop: Workshop, alone: Said) -> None:
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
        self.said: list[object] = []

    def receive(self, announced: Sequence[Announcement], *, held: int) -> Received:
        return Received(version=STEPS, files=(self.file,))

    def loaded(self, received: Received) -> None:
        self.said.append(received.files[0])

    def close(self) -> None:
        self.said.append("closed")


@pytest.mark.prove
@pytest.mark.usefixtures("alone", "split")
@pytest.mark.parametrize(("name", "like"), [("published", "lora"), ("published-3", "lora-3")])
def test_a_generator_merges_an_adapter_to_the_same_bits(workshop: Workshop, name: str, like: str) -> None:
    adapter, run = Path(workshop.path(name)), tiny_run(workshop.model, **ALONE)
    assert adapter.stat().st_size < Path(workshop.path(like)).stat().st_size / 10
    brings = Brings(adapter)
    assert run.learner.lora is not None
    receiver = MergingReceiver(brings, run.model, run.learner.lora)
    received = receiver.receive([], held=0)
    assert received.version == STEPS
    assert distance(load_file(received.files[0]), workshop.weights(like)) == 0
    receiver.loaded(received)
    assert not received.files[0].exists()
    receiver.close()
    assert brings.said == [adapter, "closed"]
    assert not received.files[0].parent.exists()


@pytest.mark.prove
@pytest.mark.usefixtures("alone", "split")
@pytest.mark.parametrize(("name", "stage", "ranks"), [("life", 0, 1), ("life-3", 3, 2)])
def test_a_step_trains_again_bit_for_bit(workshop: Workshop, name: str, stage: int, ranks: int) -> None:
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


def plain_adapter(**options: Any) -> Any:
    from peft import LoraConfig

    return LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", **options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model, and an adapter of rank 4 for it."""
    from peft import get_peft_model

    folder = tmp_path_factory.mktemp("adapter")
    model = write_tiny_model(folder / "model")
    config = plain_adapter()
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    adapted.save_pretrained(str(folder / "adapter"))
    return model, folder / "adapter"


def checked(model: Path, **lora: Any) -> None:
    check_adapter(tiny_run(model, lora=lora))


def test_another_models_adapter_or_none_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, adapter = folders
    checked(model, rank=4, alpha=8, adapter=str(adapter))
    wide = write_tiny_model(tmp_path / "wide")
    described = json.loads((wide / "config.json").read_text())
    (wide / "config.json").write_text(json.dumps(described | {"intermediate_size": 800}))
    fits: dict[str, Any] = {"rank": 4, "alpha": 8, "adapter": str(adapter)}
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (model, fits | {"rank": 8}, r"its r is 4, and the run's is 8: set learner\.lora\.rank"),
        (model, fits | {"targets": ["q_proj", "v_proj"]}, "other layers: .*down_proj.*and None in this model with"),
        (wide, fits, "for another model or other layers: .*down_proj"),
        (model, {"rank": 4, "targets": ["nothing_proj"]}, r"learner\.lora\.targets=\('nothing_proj',\): .*nothing_proj"),
        (model, {"rank": 4, "adapter": str(tmp_path)}, r"no adapter as PEFT writes it: .*adapter_config\.json"),
    ]  # fmt: skip
    for folder, lora, why in cases:
        with pytest.raises(RunFailed, match=why):
            checked(folder, **lora)


# PEFT 0.21.2: what makes another model of an adapter than its two matrices at alpha / r.
NOT_PLAIN: list[tuple[str, Any]] = [
    ("use_dora", True),
    ("use_rslora", True),
    ("alpha_pattern", {"q_proj": 32}),
    ("rank_pattern", {"q_proj": 8}),
    *(
        ("init_lora_weights", how)
        for how in ("pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga")
    ),
    ("modules_to_save", ["lm_head"]),
    ("bias", "lora_only"),
    ("lora_bias", True),
    ("use_qalora", True),
    ("layer_replication", [[0, 1], [0, 2]]),
    ("trainable_token_indices", [3]),
    ("target_parameters", ["mlp.experts.gate_up_proj"]),
    ("alora_invocation_tokens", [1, 2]),
    ("megatron_config", {"a": 1}),
    ("use_bdlora", {"nblocks": 2}),
    ("arrow_config", {"top_k": 3}),
    ("kasa_config", {"beta": 1e-4}),
    ("monteclora_config", {"num_samples": 8}),
    ("velora_config", {"num_groups": 64}),
    ("ensure_weight_tying", True),
    ("of_a_peft_to_come", "stretched"),
]
PLAIN: list[dict[str, Any]] = [
    {"init_lora_weights": "gaussian"},
    {"init_lora_weights": False},
    {"init_lora_weights": "eva", "eva_config": {"rho": 2.0}},
    {"init_lora_weights": "orthogonal"},
    {"lora_dropout": 0.1},
    {"peft_version": "0.4.0", "auto_mapping": {"base_model_class": "Qwen2ForCausalLM"}},
    {"of_a_peft_to_come": None, "and_another": {}},
]


def test_a_larger_adapter_is_refused_and_no_other(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, adapter = folders
    other = shutil.copytree(adapter, tmp_path / "other")
    found = json.loads((other / "adapter_config.json").read_text())

    def check(**changes: Any) -> None:
        (other / "adapter_config.json").write_text(json.dumps(found | changes))
        checked(model, rank=4, alpha=8, adapter=str(other))

    for name, value in NOT_PLAIN:
        told = f"it was made with {name}=.*, which this learner does not train"
        with pytest.raises(RunFailed, match=told):
            check(**{name: value})
    for changes in PLAIN:
        check(**changes)
    (other / "adapter_config.json").write_text("[]")
    with pytest.raises(RunFailed, match="holds no keys and values"):
        checked(model, rank=4, alpha=8, adapter=str(other))


@pytest.mark.parametrize("init", ["pissa", "olora", "gaussian"])
def test_peft_itself_makes_another_model_of_what_is_refused_and_the_same_of_what_is_taken(
    folders: tuple[Path, Path], tmp_path: Path, init: Any
) -> None:
    from peft import PeftModel, get_peft_model

    model, _ = folders
    config = plain_adapter(init_lora_weights=init)
    made = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                parameter.add_(0.02)
    made.save_pretrained(str(tmp_path / "made"))
    ids = torch.arange(20)[None]
    with torch.no_grad():
        theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), tmp_path / "made")
        expected = theirs.eval()(input_ids=ids).logits
        found = taken(model, tmp_path / "made")(input_ids=ids).logits
    is_same = bool(torch.allclose(found, expected, atol=1e-4))
    assert is_same is (init == "gaussian")
    refused = pytest.raises(RunFailed, match=f"made with init_lora_weights={init}")
    with nullcontext() if is_same else refused:
        checked(model, rank=4, alpha=8, adapter=str(tmp_path / "made"))


def taken(model: Path, adapter: Path) -> Any:
    """Return the model with an adapter's two matrices added, as this learner would."""
    loaded = AutoModelForCausalLM.from_pretrained(model)
    tensors = load_file(adapter / "adapter_model.safetensors")
    for name, layer in loaded.named_modules():
        if (key := f"base_model.model.{name}.lora_A.weight") in tensors:
            layer.weight.data += 8 / 4 * tensors[key.replace("lora_A", "lora_B")] @ tensors[key]
    return loaded.eval()


@pytest.mark.parametrize("targets", ["all-linear", ["c_proj"], ["wte"]])
def test_layers_that_are_not_linear_are_refused_by_name(tmp_path: Path, targets: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(RunFailed, match=r"is a (Conv1D|Embedding), and adapters are for linear layers alone"):
        checked(tmp_path / "gpt2", rank=4, alpha=8, targets=targets)
