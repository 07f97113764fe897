"""Makes the demo's model, which is shipped as config/recipes/demo_model: `python -m tools.make_demo_model --out DIR`.

In: the train split of the digit problems. Out: a Hugging Face folder, a tiny Qwen2 with a byte-level BPE tokenizer of
the family's own class. A maintainer runs it when the problems or the model change, and then the demo's seeds again. A
failure leaves no folder, or one without weights.

The model is warm-started by supervised training on demonstrations that are mostly wrong. RIGHT_SHARE of them do what is
asked, the others copy the number as it stands. So the model knows both ways, answers in a box, stops, and leaves it to
RL to find out which way pays. No held-out problem is among the demonstrations. One thread, fixed seeds and a fixed
order make the result the same bit for bit on one kind of CPU with one build of torch. Elsewhere the last bits of the
weights differ. `cmp DIR/model.safetensors config/recipes/demo_model/model.safetensors` is the whole check.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.logs import set_up_logging
from learner.data.digits import INSTRUCTION, PHRASINGS, Problem, problems

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

log = logging.getLogger(__name__)

SEED = 0
STEPS = 450
ROWS_PER_STEP = 128
PEAK_LR = 3e-3  # reached after RISE_STEPS, then falling linearly to FINAL_LR
FINAL_LR = 6e-5
RISE_STEPS = 50
NUM_PROBLEMS = 8192  # of the train split, those that are demonstrated
RIGHT_SHARE = 0.25  # of the demonstrations
LONGEST_CHAT = 256  # tokens
HIDDEN_SIZE = 96
HEAD_SIZE = 32  # on a CPU, vLLM has heads of 32, 64, ...
WORDINGS = ("\\boxed{{{}}}", "Answer: \\boxed{{{}}}", "The answer is \\boxed{{{}}}.")  # {} is the number

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
NO_LABEL = -100  # the label that cross_entropy leaves out


def build_tokenizer() -> Qwen2Tokenizer:
    """Makes the demo's tokenizer: it has the problems' words."""
    return tokenizer_of(_sentences(), chat_template=CHAT_TEMPLATE, longest=LONGEST_CHAT)


def tokenizer_of(texts: Iterable[str], *, chat_template: str, longest: int) -> Qwen2Tokenizer:
    """Makes a Qwen2Tokenizer with all 256 bytes, the words of `texts` and single digits. It encodes any text in NFC.

    Args:
        texts: what tokens are learnt from.
        chat_template: jinja.
        longest: tokens of a chat, at most.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = Qwen2Tokenizer().backend_tokenizer.pre_tokenizer  # the family's own way to split text
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            min_frequency=1, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
        ),
    )
    learnt = json.loads(bpe.to_str())["model"]
    # The tokenizer takes pairs, though its annotation says strings.
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
    tokenizer.chat_template = chat_template
    return tokenizer


def build_model(tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """Makes a Qwen2 of the demo's size with random weights, an untied head, and heads of a size that vLLM has."""
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


def demonstration(problem: Problem, draw: random.Random) -> str:
    """Writes an answer to `problem`, right or copied, in one of the wordings."""
    number = problem.answer if draw.random() < RIGHT_SHARE else problem.digits
    return draw.choice(WORDINGS).format(number)


def batches(tokenizer: Qwen2Tokenizer) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields token ids and labels, each [ROWS_PER_STEP, T], without end; NO_LABEL on prompts and padding."""
    import torch

    draw = random.Random(SEED)  # noqa: S311 (demonstrations, not secrets)
    pool = problems("train", NUM_PROBLEMS)
    prompts: dict[Problem, list[int]] = {}  # the template is the slowest part, and problems come again
    while True:
        rows = []
        for problem in draw.choices(pool, k=ROWS_PER_STEP):
            if problem not in prompts:
                prompts[problem] = _prompt_ids(tokenizer, problem)
            prompt = prompts[problem]
            answer = tokenizer(demonstration(problem, draw) + IM_END)["input_ids"]
            rows.append((prompt + answer, [NO_LABEL] * len(prompt) + answer))
        longest = max(len(ids) for ids, _ in rows)
        pad = tokenizer.pad_token_id
        yield (
            torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in rows]),
            torch.tensor([labels + [NO_LABEL] * (longest - len(labels)) for _, labels in rows]),
        )


def warm_start(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, *, steps: int = STEPS) -> list[float]:
    """Trains `model` in place for `steps` of STEPS. Returns the losses, in nats a token. Sets torch to one thread."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)  # several threads sum in another order
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    losses = []
    for step, (ids_BT, labels_BT) in zip(range(steps), batches(tokenizer), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(step)
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
    """Writes the demo's model to `--out`."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.make_demo_model", description="Make the demo's model."
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder to write; config/recipes/demo_model is shipped"
    )
    folder = parser.parse_args(arguments).out
    folder.mkdir(parents=True, exist_ok=True)  # a folder that can't be made is told before minutes of work
    set_up_logging("tools")
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    losses = warm_start(model, tokenizer)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    log.info("made folder=%s parameters=%d loss=%.4f", folder, model.num_parameters(), losses[-1])
    return 0


def _sentences() -> Iterator[str]:
    """Yields what the tokenizer's words are learnt from: each way to ask and to answer, without a number."""
    for ways in PHRASINGS.values():
        yield from (way.format(digits="") + INSTRUCTION for way in ways)
    yield from (wording.format("") for wording in WORDINGS)
    yield from ("system\n", "user\n", "assistant\n")


def _prompt_ids(tokenizer: Qwen2Tokenizer, problem: Problem) -> list[int]:
    """Returns the chat as the policy will be given it, up to where its answer begins."""
    chat = [{"role": "user", "content": problem.question}]
    return list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))


def _learning_rate(step: int) -> float:
    """Returns a rate that rises for RISE_STEPS and then falls until STEPS, both in a straight line."""
    if step < RISE_STEPS:
        return PEAK_LR * (step + 1) / RISE_STEPS
    return max(FINAL_LR, PEAK_LR * (STEPS - step) / (STEPS - RISE_STEPS))


if __name__ == "__main__":
    sys.exit(main())
