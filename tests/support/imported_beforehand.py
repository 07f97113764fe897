"""What the roles of a run import, sooner or later, with the demo's model: `forked_roles` has it imported once for all."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "learner.__main__",
    "learner.session",
    "learner.training.build",
    "learner.training.engines.deepspeed",
    "generators.__main__",
    "generators.worker",
    "generators.engines.hf.engine",
    "scorers.__main__",
    "scorers.math.equality",
    "scorers.pool.dispatcher",
    "scorers.pool.worker",
    # What these import when a model is loaded and an optimizer made.
    "math_verify",
    "deepspeed.ops.op_builder.all_ops",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.qwen2.modeling_qwen2",
)
for name in MODULES:
    import_module(name)
import_module("scorers.math.equality").warm_up()  # which each process that scores mathematics begins with
