"""Train a demo's model: `python -m tools.make_demo_model --demo digits|boxes --out DIR`.

In: the train split of the demo's problems. Out: a Hugging Face folder, a tiny Qwen2 with a byte-level BPE tokenizer of
the family's own class; config/recipes/demo_model has the model of the digits, demo_agents_model that of the boxes. A
maintainer runs it when the problems or the model change, and then the demo's seeds again. A failure leaves no folder,
or one without weights.

The model is warm-started by supervised training on demonstrations that are mostly wrong. A share RIGHT_SHARE of those
of the digits do the task, the others copy the number unchanged; those of the boxes are in `tools.box_demonstrations`.
So the model knows both ways, answers in a box, stops, and RL must find out which way pays. No held-out problem is among
the demonstrations. One thread, fixed seeds and a fixed order make the result bit-identical on one kind of CPU with one
build of torch. Elsewhere the last bits of the weights differ.
`cmp DIR/model.safetensors config/recipes/demo_model/model.safetensors` is the whole check.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.logs import set_up_logging
from learner.data.digits import INSTRUCTION, PHRASINGS, DigitProblem, problems
from tools import box_demonstrations

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

log = logging.getLogger(__name__)

SEED = 0
PEAK_LR = 3e-3  # reached after RISE_STEPS, then falling linearly to FINAL_LR
FINAL_LR = 6e-5
RISE_STEPS = 50
NUM_PROBLEMS = 8192  # demonstrated, of the train split
RIGHT_SHARE = 0.25  # of the demonstrations
LONGEST_CHAT = 256  # tokens
HIDDEN_SIZE = 96
HEAD_SIZE = 32  # vLLM's CPU kernels support 32, 64, ...
WORDINGS = ("\\boxed{{{}}}", "Answer: \\boxed{{{}}}", "The answer is \\boxed{{{}}}.")  # {} is the number

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TOLD = "\n<|im_start|>tool\n{}<|im_end|>\n<|im_start|>assistant\n"  # after the end of the policy's turn
NO_LABEL = -100  # the label that cross_entropy ignores

Chat = tuple[
    str, list[tuple[str, str]]
]  # a question; the policy's message of each turn, with the following tool message


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The demonstrations for a demo's model."""

    sentences: Callable[[], Iterable[str]]  # the texts for the tokenizer's vocabulary
    chat_template: str
    marks: tuple[str, ...] = ()  # of a tool call: one token each, kept in the text
    tools: tuple[dict[str, Any], ...] = ()  # schemas
    chats: Callable[[random.Random, int], Iterator[Chat]]  # draws that many demonstrations
    chats_per_step: int
    steps: int


def build_tokenizer(lesson: Lesson) -> Qwen2Tokenizer:
    """Make a demo's tokenizer, with the problems' words."""
    return tokenizer_of(
        lesson.sentences(), chat_template=lesson.chat_template, longest=LONGEST_CHAT, marks=lesson.marks
    )


def tokenizer_of(
    texts: Iterable[str], *, chat_template: str, longest: int, marks: Sequence[str] = ()
) -> Qwen2Tokenizer:
    """Make a Qwen2Tokenizer with all 256 bytes, the words of `texts` and single digits. It encodes any text in NFC.

    Args:
        texts: for learning the vocabulary.
        chat_template: jinja.
        longest: tokens of a chat, at most.
        marks: one token each, kept when special tokens are removed.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = Qwen2Tokenizer().backend_tokenizer.pre_tokenizer  # the family's own pre-tokenizer
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            min_frequency=1, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
        ),
    )
    learnt = json.loads(bpe.to_str())["model"]
    # The tokenizer accepts pairs, although its annotation says strings.
    merges: Any = [tuple(pair) for pair in learnt["merges"]]
    tokenizer = Qwen2Tokenizer(
        vocab=learnt["vocab"],
        merges=merges,
        unk_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        eos_token=IM_END,
        extra_special_tokens=[IM_START],
        model_max_length=longest,
    )
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in marks])
    tokenizer.chat_template = chat_template
    return tokenizer


def build_model(tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """Make a Qwen2 of the demo's size with random weights, an untied head, and a head size that vLLM supports."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(SEED)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN_SIZE,
            intermediate_size=2 * HIDDEN_SIZE,
            num_hidden_layers=2,
            num_attention_heads=HIDDEN_SIZE // HEAD_SIZE,
            num_key_value_heads=1,
            max_position_embeddings=LONGEST_CHAT,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )
    )


def demonstration(problem: DigitProblem, draw: random.Random) -> str:
    """Write an answer to `problem`, right or copied, in one of the wordings."""
    number = problem.answer if draw.random() < RIGHT_SHARE else problem.digits
    return draw.choice(WORDINGS).format(number)


def digit_chats(draw: random.Random, count: int) -> Iterator[Chat]:
    """Draw `count` demonstrations of the digits."""
    for problem in draw.choices(problems("train", NUM_PROBLEMS), k=count):
        yield problem.question, [(demonstration(problem, draw), "")]


def batches(tokenizer: Qwen2Tokenizer, lesson: Lesson) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield token ids and labels, each [B, T], endlessly; NO_LABEL outside the policy's messages, and on padding."""
    import torch

    draw = random.Random(SEED)  # noqa: S311 (demonstrations, not secrets)
    prompt_ids = cache(partial(_prompt_ids, tokenizer, lesson.tools))  # the slowest part, and problems repeat
    while True:
        rows = []
        for question, turns in lesson.chats(draw, lesson.chats_per_step):
            ids = prompt_ids(question)
            labels = [NO_LABEL] * len(ids)
            for said, told in turns:
                spoken = tokenizer(said + IM_END)["input_ids"]
                read = tokenizer(TOLD.format(told))["input_ids"] if told else []
                ids = ids + spoken + read
                labels += spoken + [NO_LABEL] * len(read)
            rows.append((ids, labels))
        longest = max(len(ids) for ids, _ in rows)
        pad = tokenizer.pad_token_id
        yield (
            torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in rows]),
            torch.tensor([labels + [NO_LABEL] * (longest - len(labels)) for _, labels in rows]),
        )


def warm_start(
    model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, lesson: Lesson, *, steps: int | None = None
) -> list[float]:
    """Train `model` in place for the first `steps` of the lesson's, or all of them. Sets torch to one thread.

    Returns:
        The losses, in nats per token.
    """
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)  # several threads would sum in another order
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    losses = []
    for step, (ids_BT, labels_BT) in enumerate(islice(batches(tokenizer, lesson), steps or lesson.steps)):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(step, lesson.steps)
        logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
        loss = cross_entropy(
            logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=NO_LABEL
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0:
            log.info("warm start step=%d loss=%.4f", step, losses[-1])
    return losses


def main(arguments: list[str] | None = None) -> int:
    """Write a demo's model to `--out`."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.make_demo_model", description="Make a demo's model."
    )
    parser.add_argument("--demo", choices=LESSONS, default="digits", help="what it is made for (digits)")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder to write; config/recipes/demo_model is shipped"
    )
    args = parser.parse_args(arguments)
    folder, lesson = args.out, LESSONS[args.demo]
    folder.mkdir(parents=True, exist_ok=True)  # an unwritable folder fails before minutes of work
    set_up_logging("tools")
    tokenizer = build_tokenizer(lesson)
    model = build_model(tokenizer)
    losses = warm_start(model, tokenizer, lesson)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    log.info("made folder=%s parameters=%d loss=%.4f", folder, model.num_parameters(), losses[-1])
    return 0


def digit_sentences() -> Iterator[str]:
    """Yield the texts for the tokenizer's vocabulary: each way to ask and to answer, without a number."""
    for ways in PHRASINGS.values():
        yield from (way.format(digits="") + INSTRUCTION for way in ways)
    yield from (wording.format("") for wording in WORDINGS)
    yield from ("system\n", "user\n", "assistant\n")


def _prompt_ids(tokenizer: Qwen2Tokenizer, tools: Sequence[dict[str, Any]], question: str) -> list[int]:
    """Return the chat as the policy gets it, up to the start of its answer."""
    chat = [{"role": "user", "content": question}]
    return list(
        tokenizer.apply_chat_template(
            chat, tools=list(tools) or None, add_generation_prompt=True, return_dict=False
        )
    )


def _learning_rate(step: int, steps: int) -> float:
    """Return a rate that rises linearly for RISE_STEPS and then falls linearly until `steps`."""
    if step < RISE_STEPS:
        return PEAK_LR * (step + 1) / RISE_STEPS
    return max(FINAL_LR, PEAK_LR * (steps - step) / (steps - RISE_STEPS))


LESSONS = {
    "digits": Lesson(
        sentences=digit_sentences,
        chat_template=CHAT_TEMPLATE,
        chats=digit_chats,
        chats_per_step=128,
        steps=450,
    ),
    "boxes": Lesson(
        sentences=box_demonstrations.sentences,
        chat_template=box_demonstrations.CHAT_TEMPLATE,
        marks=box_demonstrations.MARKS,
        tools=(box_demonstrations.TOOL,),
        chats=box_demonstrations.chats,
        chats_per_step=48,
        steps=450,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
