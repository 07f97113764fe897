"""A small world of sums with rubrics, for the proof of the rubric pipeline, and the tiny model that begins in it.

In: a seed. Out: questions with criteria, solutions with a way and without one, the right grade of each, rows for a
rubric model and for a policy, a checker that reads a derivation line by line, and a model of half a million parameters
that is warm-started on solutions and on gradings alike. Everything is made here; nothing is measured.

The world is made so that a guess pays: a result that is stated at once is right more often than one that is derived,
because the derivations that the model has seen slip. A reward for the result alone then teaches to guess.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.scorer_kinds import RubricConfig
from scorers.rubric.prompt import RubricCase, messages_of
from scorers.rubric.scorer import RubricProtocol
from tools.make_demo_model import CHAT_TEMPLATE, IM_END, NO_LABEL, tokenizer_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

SEED: Final = 0
CRITERIA: Final = "1. Adds the first two numbers (5 points)\n2. Adds the third to that (5 points)"
DERIVED_SHARE: Final = 0.5  # of the demonstrated solutions
DERIVED_RIGHT, GUESSED_RIGHT = 0.6, 0.85  # shares of right results among them: a guess pays more
GRADED_RIGHT: Final = 0.7  # of the demonstrated gradings; the others are at random
NUMBERS: Final = range(1, 6)
HELD_OUT: Final = 32  # problems
SELF_TEST_POINTS: Final = (10, 0)  # that 2 + 2 = 4 and 2 + 2 = 5 get
REPEATED: Final = 4  # times that each of these is among the rows of a rubric model
LONGEST: Final = 512  # tokens
HIDDEN_SIZE, HEAD_SIZE, LAYERS = 96, 32, 2
STEPS, SOLUTIONS, GRADINGS = 400, 24, 18  # of the warm start; rows a step of each kind
PEAK_LR, FINAL_LR, RISE_STEPS = 3e-3, 1e-4, 20
_WAY = re.compile(r"(\d+)\+(\d+)=(\d+), (\d+)\+(\d+)=(\d+)\. \\boxed\{(\d+)\}")


@dataclass(frozen=True, slots=True)
class Sum:
    """Three numbers to add."""

    a: int
    b: int
    c: int

    @property
    def question(self) -> str:
        """The text of the problem."""
        return f"What is {self.a}+{self.b}+{self.c}?"

    @property
    def answer(self) -> int:
        """The right result."""
        return self.a + self.b + self.c

    def derived(self, result: int) -> str:
        """Write a solution with both steps, whatever result the second comes to."""
        return (
            f"{self.a}+{self.b}={self.a + self.b}, {self.a + self.b}+{self.c}={result}. \\boxed{{{result}}}"
        )

    def grade(self, solution: str) -> int:
        """Return the points out of ten that the criteria give: five for each step that is shown and right."""
        found = _WAY.fullmatch(solution.strip())
        if found is None:
            return 0
        a, b, first, again, c, second, box = map(int, found.groups())
        starts = (a, b, first) == (self.a, self.b, self.a + self.b)
        ends = starts and (again, c, second, box) == (first, self.c, self.answer, self.answer)
        return 5 * starts + 5 * ends


def sums() -> tuple[list[Sum], list[Sum]]:
    """Return the problems to train on and the held-out ones, which are others."""
    everything = [Sum(a, b, c) for a in NUMBERS for b in NUMBERS for c in NUMBERS]
    random.Random(SEED).shuffle(everything)  # noqa: S311 - problems, not secrets
    return everything[HELD_OUT:], everything[:HELD_OUT]


def solution(problem: Sum, draw: random.Random) -> str:
    """Write a demonstration: derived or guessed, right or off by a little."""
    is_derived = draw.random() < DERIVED_SHARE
    is_right = draw.random() < (DERIVED_RIGHT if is_derived else GUESSED_RIGHT)
    result = problem.answer if is_right else max(1, problem.answer + draw.choice((-2, -1, 1, 2)))
    return problem.derived(result) if is_derived else f"\\boxed{{{result}}}"


def grading_row(problem: Sum, text: str) -> dict[str, Any]:
    """Return a row that trains a rubric model: what a judge is asked, and the right grade from 0 to 1."""
    return {
        "data_source": "grade",
        "prompt": messages_of(RubricCase(problem.question, CRITERIA, text)),
        "reward_model": {"style": "rule", "ground_truth": problem.grade(text) / 10},
        "extra_info": {"index": 0},
    }


def self_test_rows() -> list[dict[str, Any]]:
    """Return rows of the questions that a worker asks before its first job, so that training forgets none of them."""
    return [
        {
            "data_source": "grade",
            "prompt": chat,
            "reward_model": {"style": "rule", "ground_truth": points / 10},
            "extra_info": {"index": 0},
        }
        for (chat, _), points in zip(self_test(), SELF_TEST_POINTS, strict=True)
    ]


def policy_row(problem: Sum) -> dict[str, Any]:
    """Return a row that trains a policy: the question, the result, and the criteria."""
    return {
        "data_source": "made_tinyv",
        "prompt": [{"role": "user", "content": problem.question}],
        "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
        "extra_info": {"index": 0, "question": problem.question, "criteria": CRITERIA},
    }


def write_rows(folder: Path) -> None:
    """Write the rows of both trainings, as JSON lines: `grade_*` and `policy_*`, `train` and `test` of each."""
    draw = random.Random(SEED + 1)  # noqa: S311 - rows, not secrets
    for name, problems in zip(("train", "test"), sums(), strict=True):
        gradings = [grading_row(problem, solution(problem, draw)) for problem in problems]
        if name == "train":
            gradings += REPEATED * self_test_rows()
        for kind, rows in (("grade", gradings), ("policy", [policy_row(problem) for problem in problems])):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{kind}_{name}.jsonl").write_text(text, encoding="utf-8")


def make_model(folder: Path, *, steps: int = STEPS) -> list[float]:
    """Write the warm-started model to `folder`; return its losses, in nats a token."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, set_seed

    set_seed(SEED)
    tokenizer = build_tokenizer()
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN_SIZE,
            intermediate_size=2 * HIDDEN_SIZE,
            num_hidden_layers=LAYERS,
            num_attention_heads=HIDDEN_SIZE // HEAD_SIZE,
            num_key_value_heads=1,
            max_position_embeddings=LONGEST,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )
    )
    losses = warm_start(model, tokenizer, steps=steps)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return losses


def build_tokenizer() -> Qwen2Tokenizer:
    """Make a tokenizer with all bytes, single digits, and the words that a grading's prompt is made of."""
    case = RubricCase("What is ?", CRITERIA, "")
    wording = [message["content"].replace(case.nonce, "") for message in messages_of(case)]
    words = [*wording, *(message["content"] for chat, _ in self_test() for message in chat)]
    words += ["Total Score: /10", "\\boxed{}", "system\n", "user\n", "assistant\n"]
    return tokenizer_of(words, chat_template=CHAT_TEMPLATE, longest=LONGEST)


def warm_start(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, *, steps: int) -> list[float]:
    """Train `model` in place by demonstrations of both kinds. Sets torch to one thread."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(
        1
    )  # several threads sum in another order, and wait for each other on a busy machine
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    draw = random.Random(SEED + 2)  # noqa: S311 - demonstrations, not secrets
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = min(PEAK_LR * (step + 1) / RISE_STEPS, max(FINAL_LR, PEAK_LR * (1 - step / steps)))
        optimizer.zero_grad()
        loss = torch.zeros(())
        for ids_BT, labels_BT in batches(tokenizer, draw):
            logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
            part = cross_entropy(
                logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=NO_LABEL
            )
            part.backward()
            loss += part.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item() / 2)
    return losses


def batches(tokenizer: Qwen2Tokenizer, draw: random.Random) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield a step's two batches, solutions and gradings: token ids and labels, each [B, T]."""
    problems, _ = sums()
    solved = [
        ([{"role": "user", "content": problem.question}], solution(problem, draw))
        for problem in draw.choices(problems, k=SOLUTIONS)
    ]
    graded = [
        (_asked(problem, text := solution(problem, draw)), _graded(problem, text, draw))
        for problem in draw.choices(problems, k=GRADINGS - 2)
    ]
    graded += self_test()
    for rows in (solved, graded):
        yield _batch(tokenizer, rows)


def _batch(
    tokenizer: Qwen2Tokenizer, rows: Sequence[tuple[list[dict[str, str]], str]]
) -> tuple[Tensor, Tensor]:
    import torch

    encoded = []
    for chat, text in rows:
        prompt = list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))
        answer = tokenizer(text + IM_END)["input_ids"]
        encoded.append((prompt + answer, [NO_LABEL] * len(prompt) + answer))
    longest = max(len(ids) for ids, _ in encoded)
    pad = tokenizer.pad_token_id
    return (
        torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in encoded]),
        torch.tensor([labels + [NO_LABEL] * (longest - len(labels)) for _, labels in encoded]),
    )


def _asked(problem: Sum, text: str) -> list[dict[str, str]]:
    return messages_of(RubricCase(problem.question, CRITERIA, text))


def _graded(problem: Sum, text: str, draw: random.Random) -> str:
    points = problem.grade(text) if draw.random() < GRADED_RIGHT else draw.choice((0, 5, 10))
    return f"Total Score: {points}/10"


def self_test() -> list[tuple[list[dict[str, str]], str]]:
    """Return what a worker asks a rubric model before its first job, with the replies that it wants."""
    questions = RubricProtocol(RubricConfig()).self_test_questions()
    return [
        ([dict(message) for message in question.messages], f"Total Score: {points}/10")
        for question, points in zip(questions, SELF_TEST_POINTS, strict=True)
    ]
