"""The steps of `make prove-gpu` in their order: what each shows, what runs it, how long it may take.

In: nothing. Out: `STEPS`. On one card the limits add up to at most forty minutes, whatever hangs. Read by the command,
which starts each step in a process of its own, and by that process.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTES = 40.0  # on one card, all steps together


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Args:
        name: on the command line, in the table, and of its files.
        what: it shows, for people.
        function: `module:function`, which takes a `Place` and returns a `Found`.
        cuda_s: limit on a GPU, seconds.
        cpu_s: limit of the CPU form.
        options: keyword arguments of the function.
        no_cpu_form: why a CPU can't run the step; "" where it can.
    """

    name: str
    what: str
    function: str
    cuda_s: float
    cpu_s: float
    options: tuple[tuple[str, object], ...] = ()
    no_cpu_form: str = ""


MACHINE = Step(
    name="machine",
    what="Python, torch, the card and the libraries",
    function="benchmarks.proofs.gpu.machine:look",
    cuda_s=90,  # the first import of torch reads gigabytes
    cpu_s=120,
)

_NO_OFFLOAD = "a CPU has no other memory to keep the optimizer in, and the learner offloads nothing there"


def _zero(name: str, what: str, *, cuda_s: float, no_cpu_form: str = "", **options: object) -> Step:
    return Step(
        name=name,
        what=what,
        function="benchmarks.proofs.gpu.training:follows_the_reference",
        cuda_s=cuda_s,
        cpu_s=240,
        options=tuple(options.items()),
        no_cpu_form=no_cpu_form,
    )


STEPS: tuple[Step, ...] = (
    MACHINE,
    _zero("float32", "fused AdamW in float32, ZeRO 1", cuda_s=140, stage=1, dtype="float32"),
    _zero("zero-1", "bfloat16, ZeRO 1", cuda_s=90, stage=1),
    _zero("zero-2", "bfloat16, ZeRO 2", cuda_s=90, stage=2),
    _zero("zero-3", "bfloat16, ZeRO 3", cuda_s=90, stage=3),
    _zero(
        "zero-1-offload",
        "bfloat16, ZeRO 1, CPU-Adam",
        cuda_s=240,
        no_cpu_form=_NO_OFFLOAD,
        stage=1,
        offload_optimizer=True,
    ),
    _zero(
        "zero-3-offload",
        "bfloat16, ZeRO 3, CPU-Adam, weights in the host's memory",
        cuda_s=120,
        no_cpu_form=_NO_OFFLOAD,
        stage=3,
        offload_optimizer=True,
        offload_weights=True,
    ),
    _zero("ranks", "the learner's ranks: NCCL, or gloo on a CPU", cuda_s=110, stage=2, ranks=2),
    Step(
        name="varlen",
        what="torch's varlen attention against a reference, forward and backward",
        function="benchmarks.proofs.gpu.varlen:agrees_with_sdpa",
        cuda_s=90,
        cpu_s=60,
    ),
    Step(
        name="engine-eager",
        what="vLLM against the learner, weights loaded in flight",
        function="benchmarks.proofs.gpu.engine:agrees_in_flight",
        cuda_s=180,
        cpu_s=180,
        options=(("enforce_eager", True),),
    ),
    Step(
        name="engine-graphs",
        what="the same with compiled layers and CUDA graphs",
        function="benchmarks.proofs.gpu.engine:agrees_in_flight",
        cuda_s=240,
        cpu_s=0,
        options=(("enforce_eager", False),),
        no_cpu_form="CUDA graphs are a GPU's",
    ),
    Step(
        name="demo",
        what="the demo in bfloat16, vLLM and learner on one card, its generator killed in the middle",
        function="benchmarks.proofs.gpu.shared_card:survives_a_kill",
        cuda_s=350,
        cpu_s=480,
    ),
    Step(
        name="rates",
        what="the learner's tokens/s, MFU, and peak memory beside doctor's estimate",
        function="benchmarks.proofs.gpu.rates:measures_the_learner",
        cuda_s=210,
        cpu_s=120,
    ),
    Step(
        name="float32-head",
        what="updates and mismatch, logits in float32",
        function="benchmarks.proofs.gpu.engine:measures_mismatch",
        cuda_s=150,
        cpu_s=180,
        options=(("head_dtype", "float32"),),
    ),
    Step(
        name="model-head",
        what="updates and mismatch, logits in the model's type",
        function="benchmarks.proofs.gpu.engine:measures_mismatch",
        cuda_s=150,
        cpu_s=180,
        options=(("head_dtype", "model"),),
    ),
)
BY_NAME = {step.name: step for step in STEPS}
