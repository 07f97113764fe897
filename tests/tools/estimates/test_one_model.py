"""`millrace plan` and `millrace doctor` have the same numbers for the same run, on the cards that its recipe names."""

from __future__ import annotations

from typing import Any

import pytest

from config.loading import load_run
from tests.support.findings import only
from tests.support.paths import RECIPES
from tests.support.told import Millrace, Patch
from tools.doctor import machine
from tools.doctor.findings import readable
from tools.doctor.redis import check_redis
from tools.estimates.learner import GIB
from tools.plan.cards import planned

# Names without files here: an adapter, a reference model beside four ranks, weights that only Redis carries.
SETTINGS = {
    "as it is": (),
    "adapter": ("learner.lora={rank: 16}",),
    "reference": ("learner.objective={type: grpo, kl: {coef: 0.1}}",),
    "relay": ("learner.weights={type: relay, redis_max_bytes: 123456789}",),
    "qwen3": ("model.path=Qwen/Qwen3-4B",),
    "host": ("learner.device=cpu", "model.path=Qwen/Qwen3-4B"),
}


@pytest.mark.parametrize("words", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("recipe", ["math_qwen2.5-7b_8gpu", "gsm8k_qwen2.5-0.5b_1gpu"])
def test_plan_and_doctor_have_the_same_numbers(
    recipe: str, words: tuple[str, ...], millrace: Millrace, redis_url: str, monkeypatch: Patch
) -> None:
    file = RECIPES / f"{recipe}.yaml"
    plan = millrace("plan", file, *words, "--json").json
    run = load_run(["--config", str(file), *words])
    monkeypatch.setattr(machine, "cards", lambda: planned(file, memory_gb=None, name="").of(run))
    found = list(machine.check_machine(run))
    sections = {"memory", "Redis and disk"}
    figures: dict[str, Any] = {
        one["name"]: one["numbers"] for one in plan["figures"] if one["section"] in sections
    }

    for where in ("size", "shape"):
        millions = f"{plan['model'][where]['parameters'] / 1e6:.1f} million parameters"
        assert millions in only(found, "model size").seen
    disks = " ".join(one.seen for one in found if one.name == "disk")
    assert [readable(count) in disks for count in figures["disk"].values()] == [True] * 3
    if host := figures.get("host"):
        seen = only(found, "memory").seen
        assert f"training {readable(host['training_bytes'])}, " in seen
        assert f" {readable(host['sampling_bytes'])}" in seen.partition("generator")[2]
    else:
        _, names, terms = only(found, "learner GPUs").seen.splitlines()
        rank = figures["learner's rank"]
        assert terms.split() == [f"{rank[f'{name}_bytes'] / GIB:.1f}" for name in names.split()]
        generator = figures["vLLM generator"]["total_bytes"]
        assert only(found, "vLLM GPUs").seen.endswith(f": {generator / GIB:.1f}")
        sums = [one.seen for one in found if one.name == "GPU memory"]
        assert sums == [one["seen"] for one in plan["findings"] if one["name"] == "GPU memory"]
    if reference := figures.get("reference model"):
        assert f"the reference model {readable(reference['bytes'])}, " in only(found, "memory").seen
    room = figures["Redis"]
    groups = sum(room[f"{part}_bytes"] for part in ("groups", "evaluation", "weights"))
    assert f"take at most about {readable(groups)}" in only(check_redis(redis_url, run), "memory").seen
