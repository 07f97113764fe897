"""Analyze a chat template by its output: where a question ends, how a turn ends, whether the model thinks already.

In: a tokenizer with its template. Out: a `Reading`, and a template that opens a thought and announces it in the system
message. The template's own text is not parsed: families write the same prompt in many ways, and the prompt is what
counts. Pure except for the rendering, which transformers does in its sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from broker.errors import Permanent
from tasks.chat_template import reason_of, render, syntax_error
from tasks.thoughts import THINK, marks_of, opened_by

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Turn = Mapping[str, str]

OPENED: Final = f"{THINK.texts[0]}\n"
INSTRUCTION: Final = (
    "You are a helpful assistant. Think within <think> and </think> first, then give your answer."
)
# Each family by the mark at the end of its turns.
FAMILIES: Final[Mapping[str, str]] = {
    "qwen": "<|im_end|>",
    "llama": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "mistral": "</s>",
    "deepseek": "<\uff5cend\u2581of\u2581sentence\uff5c>",
}
SWITCHES: Final = (
    "enable_thinking",
    "thinking",
)  # arguments of templates of thinking models: Qwen3's, Granite's
# Words that no template contains, so that they can be found in its output.
QUESTION: Final = "Quo-vadis-17"
ANSWER: Final = "Quid-est-42"
SYSTEM: Final = "Nota-bene-99"
USER_TURN: Final[Turn] = {"role": "user", "content": QUESTION}
ANSWER_TURN: Final[Turn] = {"role": "assistant", "content": ANSWER}


class CannotThink(Permanent):
    """The template can't be changed, or needs no change; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The properties of a template's output."""

    template: str
    end: str  # the token that ends the model's turn
    takes_system: bool  # whether a chat may have a system message

    @property
    def family(self) -> str:
        """Return the family with this end of turns; others may share the mark. "" for none."""
        return next((name for name, mark in FAMILIES.items() if mark == self.end), "")


def read_template(tokenizer: PreTrainedTokenizerBase, family: str = "") -> Reading:
    """Analyze the tokenizer's template.

    Args:
        tokenizer: with a template.
        family: the required end of turns; "": any.
    Raises:
        CannotThink: it has no template or fails, it already opens a thought, no answer follows its prompt, or its turns
            end without a token of their own or not with the family's.
    """
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not template:
        raise CannotThink("the tokenizer has no chat template: give one, --template FILE")
    if error := syntax_error(tokenizer):
        raise CannotThink(f"the chat template: {error}")
    asked = _rendered(tokenizer, [USER_TURN])
    _refuse_thinking(tokenizer, asked)
    answered = _rendered(tokenizer, [USER_TURN, ANSWER_TURN], add_generation_prompt=False)
    if not answered.startswith(asked.rstrip()) or not answered[len(asked.rstrip()) :].lstrip().startswith(
        ANSWER
    ):
        raise CannotThink(
            f"nothing matched: the template's prompt is {asked!r}, and no answer follows it in {answered!r}: a thought "
            "that is opened there would not be where the model's turn begins"
        )
    end = _end_of_turn(tokenizer, answered.rpartition(ANSWER)[2])
    if family and FAMILIES[family] != end:
        raise CannotThink(f"turns end with {end}; those of {family} end with {FAMILIES[family]}")
    return Reading(template=str(template), end=end, takes_system=_takes_system(tokenizer))


def thinking_template(reading: Reading, instruction: str) -> str:
    """Return the template with a thought opened after the prompt and the instruction before the first turn.

    The instruction is the system message where a chat has none; where the template supports none, it begins the first
    user message. jinja removes one line break from a template's end and one after each tag.
    """
    body = reading.template.removesuffix("\n")
    behind = f"{{%+ if add_generation_prompt %}}{{{{ {_quoted(OPENED)} }}}}{{% endif %}}"
    return f"{_before(reading, instruction)}{body}{behind}" if instruction else f"{body}{behind}"


def with_instruction(chat: Sequence[Turn], instruction: str, *, takes_system: bool) -> list[dict[str, str]]:
    """Return the chat that the changed template renders for a chat."""
    turns = [dict(turn) for turn in chat]
    first = turns[0]
    if not instruction or (takes_system and first["role"] == "system"):
        return turns
    if takes_system:
        return [{"role": "system", "content": instruction}, *turns]
    if first["role"] == "user":
        turns[0] = {"role": "user", "content": f"{instruction}\n\n{first['content']}"}
    return turns


def check_rendering(
    own: PreTrainedTokenizerBase, changed: PreTrainedTokenizerBase, reading: Reading, instruction: str
) -> None:
    """Check that a changed template renders the same as its own, with the instruction, and an opened thought.

    Raises:
        CannotThink: a chat is rendered differently; the message shows it.
    """
    followed: list[Turn] = [USER_TURN, ANSWER_TURN, {"role": "user", "content": "And then?"}]
    chats: list[list[Turn]] = [[USER_TURN], followed, [{"role": "system", "content": SYSTEM}, USER_TURN]]
    for chat in chats if reading.takes_system else chats[:2]:
        instructed = with_instruction(chat, instruction, takes_system=reading.takes_system)
        for is_asked in (True, False):
            wanted = _rendered(own, instructed, add_generation_prompt=is_asked) + OPENED * is_asked
            found = _rendered(changed, chat, add_generation_prompt=is_asked)
            if found != wanted:
                raise CannotThink(
                    f"the template can't be changed so: {chat} would be rendered as {found!r}, and not as {wanted!r}"
                )


def _before(reading: Reading, instruction: str) -> str:
    words = _quoted(instruction)
    if reading.takes_system:
        return (
            "{%- if messages and messages[0]['role'] != 'system' %}"
            f"{{%- set messages = [{{'role': 'system', 'content': {words}}}] + messages %}}"
            "{%- endif %}\n"
        )
    return (
        "{%- if messages and messages[0]['role'] == 'user' and messages[0]['content'] is string %}"
        f"{{%- set messages = [{{'role': 'user', 'content': {words} + '\\n\\n' + messages[0]['content']}}]"
        " + messages[1:] %}{%- endif %}\n"
    )


def _quoted(text: str) -> str:
    r"""Return a text as a jinja literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _refuse_thinking(tokenizer: PreTrainedTokenizerBase, asked: str) -> None:
    """Raise CannotThink where the model already thinks."""
    if THINK.texts[0] in asked.rpartition(QUESTION)[2] or opened_by(asked):
        raise CannotThink("the template opens a thought already: the model thinks with it as it is")
    for marks in marks_of(str(tokenizer.chat_template)):
        if marks is not THINK:
            raise CannotThink(
                f"the template has {marks.texts[0]!r}: the model thinks already, by marks of its own"
            )
    for switch, is_on in product(SWITCHES, (True, False)):
        if _rendered(tokenizer, [USER_TURN], **{switch: is_on}) != asked:
            raise CannotThink(
                f"the template has {switch}: the model thinks already, and was trained to open the thought itself"
            )


def _end_of_turn(tokenizer: PreTrainedTokenizerBase, tail: str) -> str:
    """Return the token at the beginning of the text after an answer."""
    behind = tail.lstrip()
    known = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
    found = max((token for token in known if token and behind.startswith(token)), key=len, default="")
    if not found:
        raise CannotThink(
            f"nothing matched: the template ends the model's turn with {tail!r}, which begins with no token of its "
            "own, so nothing would end an answer"
        )
    return found


def _takes_system(tokenizer: PreTrainedTokenizerBase) -> bool:
    try:
        text = render(tokenizer, [{"role": "system", "content": SYSTEM}, USER_TURN])
    except Exception:  # noqa: BLE001 - a template may raise anything to reject an argument
        return False
    return SYSTEM in text and QUESTION in text


def _rendered(tokenizer: PreTrainedTokenizerBase, chat: Sequence[Turn], **arguments: Any) -> str:
    try:
        return render(tokenizer, chat, **arguments)
    except Exception as error:
        raise CannotThink(f"the chat template fails for {list(chat)}: {reason_of(error)}") from error
