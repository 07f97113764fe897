"""TRL's GRPOTrainer on the demo's model and problems. Run in an environment of its own, which has TRL and math-verify.

In: a JSON file with the folder of the model, rows to train on and held-out rows, and the sizes. Out: a line of JSON for
each optimizer step and each held-out evaluation, with its Unix time, in the file that it names. Model, optimizer,
batch, sampling and evaluations are those of the demo; the objective is TRL's default.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from math_verify import LatexExtractionConfig, parse, verify
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

BOXED = LatexExtractionConfig(boxed_match_priority=0)


def rewards(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """Return 1.0 for each completion with a boxed answer that math-verify finds equal, else 0.0."""
    found = []
    for completion, gold in zip(completions, answer, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        parsed = [parse(part, [BOXED], parsing_timeout=None) for part in (f"\\boxed{{{gold}}}", text)]
        found.append(float("\\boxed" in text and verify(*parsed, timeout_seconds=None)))
    return found


class Told(TrainerCallback):
    """Writes down each step, and evaluates every so many."""

    def __init__(self, given: dict[str, Any], model: Any, tokenizer: Any) -> None:
        self._given, self._model, self._tokenizer = given, model, tokenizer

    def tell(self, **what: Any) -> None:
        """Write a line."""
        with Path(self._given["out"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": time.time(), **what}) + "\n")

    def evaluate(self, step: int) -> None:
        """Sample the held-out rows and write down the share that is right."""
        rows = [row for row in self._given["held_out"] for _ in range(self._given["samples"])]
        texts = [
            self._tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
            for row in rows
        ]
        asked = self._tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        asked.pop("token_type_ids", None)
        was_training = self._model.training
        self._model.eval()
        with torch.no_grad():
            ids = self._model.generate(
                **asked, max_new_tokens=self._given["max_tokens"], do_sample=True, temperature=1.0, top_k=0
            )
        self._model.train(was_training)
        said = self._tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
        right = rewards(said, [row["answer"] for row in rows])
        self.tell(evaluated=step, pass_rate=sum(right) / len(right))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Write down the step, and evaluate where it is time."""
        self.tell(step=state.global_step)
        if state.global_step % self._given["every"] == 0:
            self.evaluate(state.global_step)


def main() -> None:
    """Train."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(given["threads"])
    set_seed(given["seed"])
    # AutoTokenizer goes by the type of the model, and would take another class than the folder's file is of.
    tokenizer = PreTrainedTokenizerFast.from_pretrained(given["model"], padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(given["model"], dtype=torch.float32)
    told = Told(given, model, tokenizer)
    told.evaluate(0)
    config = GRPOConfig(
        output_dir=given["folder"],
        seed=given["seed"],
        per_device_train_batch_size=given["prompts"] * given["group"],
        num_generations=given["group"],
        max_steps=given["steps"],
        lr_scheduler_type="constant_with_warmup",
        **given["optimizer"],
        mask_truncated_completions=True,
        max_completion_length=given["max_tokens"],
        temperature=1.0,
        beta=0.0,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=config,
        train_dataset=Dataset.from_list(given["rows"]),
        processing_class=tokenizer,
        callbacks=[told],
    )
    trainer.train()
    model.save_pretrained(given["folder"])


if __name__ == "__main__":
    main()
