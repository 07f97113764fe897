"""The steps of `make prove-gpu` in the order of what they prove: what each shows, what runs it, how long it takes.

In: nothing. Out: `STEPS`, and `chosen`, which leaves out what a budget has no room for. Read by the command, which has
workers run the steps, and by the workers.

Two lanes go side by side on one card: what trains, and what samples. Steps that measure a speed have the card to
themselves, at the end. Costs are those of a machine that reads its packages for the first time: the NVIDIA H200 of
2026-11-27 in benchmarks/RESULTS.md, less what a worker that has its libraries need not read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.proofs.gpu.outcomes import Device

BUDGET_S = 540.0  # on a GPU, all steps together
TRAINS, SAMPLES, ALONE = "trains", "samples", "alone"  # lanes; ALONE comes after both
ENGINE = "engine"  # a session: its steps share a process, and in it one vLLM


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStep:
    """One step.

    Args:
        name: on the command line, in the table, and of its files.
        what: it shows, for people.
        function: `module:function`, which takes a `StepPlace` and returns `StepFigures`.
        cost_s: what it takes on a GPU, seconds, without its session's beginning.
        cuda_s: limit on a GPU, seconds; a session's beginning is in that of each of its steps.
        cpu_cost_s: what its CPU form takes.
        cpu_s: limit of the CPU form.
        lane: TRAINS, SAMPLES or ALONE.
        session: steps of one name share a process; "": it has one of its own.
        options: keyword arguments of the function.
        no_cpu_form: why a CPU can't run the step; "" where it can.
    """

    name: str
    what: str
    function: str
    cost_s: float
    cuda_s: float
    cpu_cost_s: float
    cpu_s: float
    lane: str
    session: str = ""
    options: tuple[tuple[str, object], ...] = ()
    no_cpu_form: str = ""

    def cost_on(self, device: Device) -> float:
        """Return what the step takes on a device, seconds."""
        if device == "cuda":
            return self.cost_s
        return 0.0 if self.no_cpu_form else self.cpu_cost_s

    def limit_on(self, device: Device) -> float:
        """Return the step's limit on a device, seconds."""
        return self.cuda_s if device == "cuda" else self.cpu_s


MACHINE = GpuStep(
    name="machine",
    what="Python, torch, the card and the libraries",
    function="benchmarks.proofs.gpu.machine:look",
    cost_s=30,
    cuda_s=90,  # the first import of torch reads gigabytes
    cpu_cost_s=10,
    cpu_s=120,
    lane=ALONE,
)
LIBRARIES_S: Mapping[Device, float] = {
    "cuda": 45,
    "cpu": 25,
}  # until a worker can be forked from what has read them
ENDS_S = 10.0  # for what still runs at the end of the budget to be ended
LIBRARIES_MOST_S = 150.0  # then each worker reads its own
SESSIONS: Mapping[str, Mapping[Device, float]] = {
    ENGINE: {"cuda": 75, "cpu": 70}
}  # until its first step begins

_NO_OFFLOAD = "a CPU has no other memory to keep the optimizer in, and the learner offloads nothing there"


def _zero(
    name: str, what: str, *, cost_s: float, cuda_s: float, no_cpu_form: str = "", **options: object
) -> GpuStep:
    return GpuStep(
        name=name,
        what=what,
        function="benchmarks.proofs.gpu.training:follows_the_reference",
        cost_s=cost_s,
        cuda_s=cuda_s,
        cpu_cost_s=10,
        cpu_s=400,  # two ranks beside an engine, on two cores that others use too
        lane=TRAINS,
        options=tuple(options.items()),
        no_cpu_form=no_cpu_form,
    )


STEPS: tuple[GpuStep, ...] = (
    MACHINE,
    _zero("float32", "fused AdamW in float32, ZeRO 1", cost_s=40, cuda_s=100, stage=1, dtype="float32"),
    _zero("zero-2", "bfloat16, ZeRO 2", cost_s=20, cuda_s=60, stage=2),
    _zero("zero-3", "bfloat16, ZeRO 3", cost_s=20, cuda_s=60, stage=3),
    _zero(
        "zero-1-offload",
        "bfloat16, ZeRO 1, CPU-Adam",
        cost_s=60,
        cuda_s=120,
        no_cpu_form=_NO_OFFLOAD,
        stage=1,
        offload_optimizer=True,
    ),
    _zero(
        "zero-3-offload",
        "bfloat16, ZeRO 3, CPU-Adam, weights in the host's memory",
        cost_s=25,
        cuda_s=75,
        no_cpu_form=_NO_OFFLOAD,
        stage=3,
        offload_optimizer=True,
        offload_weights=True,
    ),
    _zero(
        "ranks", "two ranks: NCCL between two cards, or gloo on a CPU", cost_s=25, cuda_s=75, stage=2, ranks=2
    ),
    GpuStep(
        name="varlen",
        what="torch's varlen attention against a reference, forward and backward",
        function="benchmarks.proofs.gpu.varlen:agrees_with_sdpa",
        cost_s=20,
        cuda_s=60,
        cpu_cost_s=10,
        cpu_s=60,
        lane=TRAINS,
    ),
    GpuStep(
        name="engine-eager",
        what="vLLM against the learner, weights loaded in flight",
        function="benchmarks.proofs.gpu.engine:agrees_in_flight",
        cost_s=25,
        cuda_s=150,
        cpu_cost_s=30,
        cpu_s=300,
        lane=SAMPLES,
        session=ENGINE,
        options=(("enforce_eager", True),),
    ),
    GpuStep(
        name="float32-head",
        what="updates and mismatch, logits in float32",
        function="benchmarks.proofs.gpu.engine:measures_mismatch",
        cost_s=35,
        cuda_s=150,
        cpu_cost_s=30,
        cpu_s=240,
        lane=SAMPLES,
        session=ENGINE,
        options=(("head_dtype", "float32"),),
    ),
    GpuStep(
        name="demo",
        what="the demo in bfloat16, vLLM and learner on one card, its generator killed in the middle",
        function="benchmarks.proofs.gpu.shared_card:survives_a_kill",
        cost_s=220,
        cuda_s=270,
        cpu_cost_s=240,
        cpu_s=600,
        lane=SAMPLES,
    ),
    GpuStep(
        name="rates",
        what="the learner's tokens/s beside the product that the card measures, and peak memory beside doctor's",
        function="benchmarks.proofs.gpu.rates:measures_the_learner",
        cost_s=60,
        cuda_s=120,
        cpu_cost_s=20,
        cpu_s=120,
        lane=ALONE,
    ),
    GpuStep(
        name="updates",
        what="tokens/s of vLLM with new weights coming in, beside none",
        function="benchmarks.proofs.gpu.updates:measures_updates",
        cost_s=40,
        cuda_s=150,
        cpu_cost_s=40,
        cpu_s=300,
        lane=ALONE,
        session=ENGINE,
    ),
    _zero("zero-1", "bfloat16, ZeRO 1", cost_s=20, cuda_s=60, stage=1),
    GpuStep(
        name="engine-graphs",
        what="vLLM against the learner with compiled layers and CUDA graphs",
        function="benchmarks.proofs.gpu.engine:agrees_in_flight",
        cost_s=130,
        cuda_s=240,
        cpu_cost_s=0,
        cpu_s=0,
        lane=SAMPLES,
        options=(("enforce_eager", False),),
        no_cpu_form="CUDA graphs are a GPU's",
    ),
    GpuStep(
        name="model-head",
        what="updates and mismatch, logits in the model's type",
        function="benchmarks.proofs.gpu.engine:measures_mismatch",
        cost_s=90,
        cuda_s=180,
        cpu_cost_s=80,
        cpu_s=300,
        lane=SAMPLES,
        options=(("head_dtype", "model"),),
    ),
)
BY_NAME = {step.name: step for step in STEPS}


def chosen(steps: Sequence[GpuStep], device: Device, budget_s: float) -> tuple[list[GpuStep], dict[str, str]]:
    """Leave out what a budget has no room for, in the order of the steps: a later, shorter one may still have room.

    Args:
        steps: wanted.
        device: that they run on.
        budget_s: for all of them and the machine's look at itself; infinite: none is left out.
    Returns:
        The steps that run, and for each of the others, by its name, why not.
    """
    kept: list[GpuStep] = []
    left_out: dict[str, str] = {}
    for step in steps:
        whole_s = takes([*kept, step], device)
        if whole_s <= budget_s:
            kept.append(step)
        else:
            left_out[step.name] = (
                f"it takes about {step.cost_on(device):.0f} s, and all would take {whole_s:.0f}"
            )
    return kept, left_out


def takes(steps: Sequence[GpuStep], device: Device) -> float:
    """Return the seconds of steps by their declared costs: the longer lane, then what has the card to itself."""
    lanes = {TRAINS: 0.0, SAMPLES: 0.0, ALONE: LIBRARIES_S[device] + MACHINE.cost_on(device) + ENDS_S}
    begun = set[str]()
    for step in steps:
        if step is MACHINE:
            continue
        if step.session and step.session not in begun:
            begun.add(step.session)
            lanes[step.lane] += SESSIONS[step.session][device]
        lanes[step.lane] += step.cost_on(device)
    return max(lanes[TRAINS], lanes[SAMPLES]) + lanes[ALONE]
