"""`millrace think-template MODEL -o OUT`: copy a model with a chat template that makes it think before it answers.

In: a model's folder, or its name on the hub. Out: a folder whose template opens `<think>` after the prompt and
announces it in the system message, whose files agree on the end of a completion, and a sample of its prompts. Before
the folder gets its name, it is loaded again and compared with its own template's output, and a test answer goes through
the generators' decoding and the scorers' extraction. Exit code: 0 done; 1 the template can't be changed; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import RunFailed
from broker.messages import FinishReason
from config.places import is_path
from config.run import ModelConfig
from scorers.text.extract import last_box, response_part
from tasks.chat_template import render
from tasks.model_chat import load_chat
from tasks.thoughts import THINK_CLOSE
from tools.arguments import UsageError
from tools.think_template.chat import (
    FAMILIES,
    INSTRUCTION,
    OPENED,
    CannotThink,
    Reading,
    check_rendering,
    read_template,
    thinking_template,
)
from tools.think_template.ends import all_ends, write_ends
from tools.think_template.folder import WEIGHTS, copy_model, put_template, whole_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EPILOG: Final = (
    "The folder is checked before it has its name: the prompts of the new template are those of its own, with the "
    "instruction and an opened thought, and a scorer reads the answer behind the thought. A model that thinks already "
    "is an error."
)
SAMPLE: Final = ({"role": "user", "content": "What is 17 + 25?"},)
THOUGHT: Final = "17 and 25 are 42."
ANSWER: Final = "\n\nIt is \\boxed{42}."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace think-template`."""
    parser.add_argument("model", metavar="MODEL", help="a model's folder, or its name on the hub")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--revision", metavar="NAME", help="commit or tag on the hub (the newest)")
    parser.add_argument(
        "--family", choices=FAMILIES, help="what the model has to be; it is found by how its turns end (any)"
    )
    parser.add_argument(
        "--template", type=Path, metavar="FILE", help="a jinja file in place of the model's own template"
    )
    words = parser.add_mutually_exclusive_group()
    words.add_argument(
        "--system", default=INSTRUCTION, metavar="TEXT", help="the system's turn of a chat that has none"
    )
    words.add_argument(
        "--no-system",
        dest="system",
        action="store_const",
        const="",
        help="open a thought, and leave the system's turn as it is",
    )
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--tokenizer-only", action="store_true", help="leave the weights out")
    weights.add_argument("--copy", action="store_true", help="copy the weights, and link none")
    parser.add_argument("--force", action="store_true", help="replace OUT, if it is there")


def run(options: argparse.Namespace) -> int:
    """Write the folder and report its content. Raises UsageError, RunFailed, CannotThink."""
    out: Path = options.out
    if out.exists() and not (options.force and out.is_dir()):
        raise UsageError(f"--out {out}: exists{'' if options.force else '; --force replaces a folder'}")
    source = _source(options.model, options.revision, with_weights=not options.tokenizer_only)
    if out.resolve() == source.resolve() or out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"--out {out}: lies in the model's own folder")
    own = _tokenizer(source)
    if options.template is not None:
        own.chat_template = _text(options.template)
    reading = read_template(own, options.family or "")
    try:
        with whole_folder(out) as part:
            copy_model(source, part, with_weights=not options.tokenizer_only, is_linked=not options.copy)
            said = _change(part, own, reading, options.system)
    except (OSError, ValueError) as error:
        raise RunFailed(f"{out} can't be written: {error}") from error
    sys.stdout.write("\n".join([f"wrote {out}", *said]) + "\n")
    return 0


def _source(model: str, revision: str | None, *, with_weights: bool) -> Path:
    """Return the folder of the model, downloaded if it is on the hub."""
    if Path(model).is_dir():
        return Path(model)
    if is_path(model):
        raise UsageError(f"{model}: there is no such folder, and no name on the hub is so")
    from huggingface_hub import snapshot_download

    left_out = None if with_weights else [*(f"*{suffix}" for suffix in sorted(WEIGHTS)), "*.index.json"]
    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=left_out))
    except (OSError, ValueError) as error:  # the hub's own errors derive from these
        raise RunFailed(f"{model}: no folder here, and the hub does not give it: {error}") from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--template {file}: can't be read: {error}") from error


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise RunFailed(f"{folder}: its tokenizer can't be loaded: {error}") from error
    return found


def _change(folder: Path, own: PreTrainedTokenizerBase, reading: Reading, instruction: str) -> list[str]:
    """Change the files of a copy, load them again and check them. Returns lines for people."""
    template_files = put_template(folder, thinking_template(reading, instruction))
    end_id: Any = own.convert_tokens_to_ids(reading.end)
    own_end: Any = own.eos_token_id
    ends = all_ends(folder, end_id, own_end)
    end_files = write_ends(folder, reading.end, ends)
    changed = _tokenizer(folder)
    check_rendering(own, changed, reading, instruction)
    prompt = render(changed, SAMPLE)
    answer = _read_answer(folder, changed, prompt, end_id)
    names = ", ".join(f"{own.convert_ids_to_tokens(number)} {number}" for number in ends)
    if not instruction:
        system = "as it was"
    elif reading.takes_system:
        system = f"{instruction!r}, where a chat has no system's turn"
    else:
        system = f"{instruction!r}, at the beginning of the user's first turn: there is no system's turn"
    return [
        f"turns     end with {reading.end}{f', as those of {reading.family} do' if reading.family else ''}",
        f"template  {', '.join(template_files)}",
        f"ends      {names}: {', '.join(end_files)}",
        f"system    {system}",
        f"answer    {OPENED + THOUGHT + THINK_CLOSE + ANSWER!r} is read as {answer!r}",
        "prompt",
        prompt,
    ]


def _read_answer(folder: Path, tokenizer: PreTrainedTokenizerBase, prompt: str, end_id: int) -> str:
    """Return the scorers' reading of a test answer, decoded as in a generator.

    Raises:
        CannotThink: the answer is changed, or a truncated thought counts as one.
    """
    chat = load_chat(ModelConfig(path=str(folder)), is_offline=True)

    def ids_of(text: str) -> list[int]:
        found: Any = tokenizer.encode(text, add_special_tokens=False)
        return list(found)

    prompt_ids, thought = ids_of(prompt), ids_of(THOUGHT)
    spoken = [*ids_of(THOUGHT + THINK_CLOSE + ANSWER), end_id]
    text = chat.text(prompt_ids, spoken, FinishReason.STOP)
    response = response_part(text)
    if end_id not in chat.stop_token_ids or response is None or last_box(response) != "42":
        raise CannotThink(f"a scorer would read {text!r} as {response!r}")
    if response_part(chat.text(prompt_ids, thought, FinishReason.LENGTH)) is not None:
        raise CannotThink(
            f"a thought that was cut off would be an answer: the prompt ends with {prompt[-40:]!r}"
        )
    return response
