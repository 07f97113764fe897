"""Render with a model's own chat template: it makes the first prompt, and the tail of every other.

In and out: see `agents.rendering.rendering.Rendering`. The tail is cut from a dummy conversation of one question, an
answer of the same shape as the policy's, and the messages since. It is used only if the whole conversation, rendered by
the same template, ends with exactly that tail. Used by the agents' worker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agents.rendering.rendering import Spoken, Unrenderable
from agents.rendering.spoken import seed_of, spoken
from agents.rendering.tool_calls.formats import format_of
from broker.messages import FinishReason, Ids, Turn
from config.run import ModelConfig
from tasks.chat_template import reason_of, template_name
from tasks.model_chat import ModelChat, load_templated_tokenizer, own_marks
from tasks.thoughts import THINK, parted

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MARK: Final = "Zq7mark"  # marks the end of the dummy's answer and arguments
_QUESTION: Final[Turn] = {"role": "user", "content": "Zq7question"}
_RESULT: Final = "Zq7result"
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking")  # of a message, in various templates
_CALL_ID: Final = "zq7result"  # nine letters and digits, as Mistral's templates require
_ANSWERED: Final[Turn] = {"role": "tool", "tool_call_id": _CALL_ID, "name": "zq7", "content": _RESULT}


def load_rendering(model: ModelConfig, *, is_offline: bool = False) -> TemplatedRendering:
    """Load the rendering of a model.

    Raises:
        RunFailed: its tokenizer can't be loaded, or has no chat template.
    """
    tokenizer = load_templated_tokenizer(model, is_offline=is_offline)
    chat = ModelChat(tokenizer, frozenset(), own_marks(tokenizer, model))
    return TemplatedRendering(tokenizer, chat, template_name(model))


class TemplatedRendering:
    """A `Rendering` from a tokenizer and its chat template.

    Args:
        tokenizer: with the template that renders the run's prompts.
        chat: of the same tokenizer.
        name: the template's, for people.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, chat: ModelChat, name: str) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._name = name
        added = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
        self._tokens = re.compile("(" + "|".join(map(re.escape, added)) + ")") if added else None
        found = tokenizer.chat_template
        self._template = "\n".join(map(str, found.values())) if isinstance(found, dict) else str(found)
        self._thought_key = next((key for key in _THOUGHT_KEYS if _is_asked_for(key, self._template)), "")
        self._call_format = format_of(self._template)
        self._has_text_arguments = self._wants_text_arguments()
        self._most_calls = 1 if self._refuses_calls_together() else None
        self._close = self._plain_close()

    def objection(self, tools: Sequence[Turn]) -> str:
        """Return why the policy would not see tools or their answers; "" where it does."""
        if not tools:
            return ""
        name = str(tools[0]["function"]["name"])
        try:
            if name not in self._rendered([_QUESTION], tools):
                return f"{self._name} does not show tools"
            if _RESULT not in self._rendered(
                [_QUESTION, _calling(["{}"], name), _ANSWERED | {"name": name}], tools
            ):
                return f"{self._name} does not show what tools answer"
        except Exception as error:  # noqa: BLE001 - a template may raise anything
            return f"{self._name} fails with tools: {reason_of(error)}"
        return ""

    def first(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> Ids:
        """Return the ids of all messages. Raises Unrenderable."""
        try:
            text = self._rendered(messages, tools)
        except Exception as error:
            raise Unrenderable(f"{self._name} fails: {reason_of(error)}") from error
        return self._ids(text)

    def following(
        self,
        given: Ids,
        sampled: Ids,
        finish: FinishReason,
        *,
        history: Sequence[Turn],
        said: Sequence[Turn],
        tools: Sequence[Turn],
    ) -> Ids | None:
        """Return the next prompt, or None where the template has no tail for these messages."""
        stop = self._token(int(sampled[-1])) if finish is FinishReason.STOP else None
        if any(_MARK in repr(turn) for turn in said):  # the tail would be cut after it
            return None
        try:
            found = self._open_tail(given, sampled, said, tools) if stop is None else None
            found = found or self._tail(history[-1], said, tools, stop)
            if found is None or not self._rendered([*history, *said], tools).endswith("".join(found)):
                return None
        except Exception:  # noqa: BLE001 - a template may raise anything
            return None
        ended, tail = found
        ids = self._ids(ended + tail)  # tokenized together: a token may include the whitespace after it
        if ended and stop is not None:  # the policy has ended its turn itself
            if not len(ids) or self._token(int(ids[0])) != ended:
                return None
            ids = ids[1:]
        return _joined(given, sampled, ids)

    def plain(self, text: str) -> Ids:
        """Return the ids of a text, with the tokenizer's prefix, as in servers of completions."""
        return self._ids(text, is_whole=True)

    def message(
        self, given: Ids, sampled: Ids, finish: FinishReason, *, tools: Sequence[Turn] = ()
    ) -> Spoken:
        """Return the policy's message, with its thought and its tool calls separated."""
        text = self._chat.said(given.tolist(), sampled.tolist(), finish)
        return spoken(
            text,
            self._chat.marks,
            self._call_format,
            tools,
            seed_of(given, sampled),
            most_calls=self._most_calls,
        )

    def text(self, given: Ids, sampled: Ids, finish: FinishReason) -> str:
        """Return the text for scorers and people."""
        return self._chat.text(given.tolist(), sampled.tolist(), finish)

    def _tail(
        self, answer: Turn, said: Sequence[Turn], tools: Sequence[Turn], stop: str | None
    ) -> tuple[str, str] | None:
        """Return the template's token that ends the policy's turn, "" for none, and the text after it.

        Args:
            answer: the policy's own message; the dummy only has its calls' names and ids.
            said: the messages since.
            tools: they select the template, where a tokenizer has several.
            stop: the token that ended the policy's turn; None: it was cut.
        """
        dummy = _dummy(answer)
        behind = _behind_mark(self._rendered([_QUESTION, dummy, *said], tools, dummy=True))
        alone = _behind_mark(self._rendered([_QUESTION, dummy], tools, dummy=True, asks=False))
        if behind is None or alone is None:
            return None
        return _split(self._pieces(behind), self._pieces(alone), stop, self._close)

    def _open_tail(
        self, given: Ids, sampled: Ids, said: Sequence[Turn], tools: Sequence[Turn]
    ) -> tuple[str, str] | None:
        """Return the tail of a turn that was cut in a thought: the template's end of the thought, then of the turn.

        None where the turn was not in a thought, or the template drops thoughts from the history.
        """
        text = self._chat.said(given.tolist(), sampled.tolist(), FinishReason.LENGTH)
        if parted(text, self._chat.marks).answer is not None:
            return None
        dummy = {"role": "assistant", "content": "", "reasoning_content": _MARK}
        behind = _behind_mark(self._rendered([_QUESTION, dummy, *said], tools, dummy=True))
        return None if behind is None else ("", behind)

    def _pieces(self, text: str) -> list[str]:
        """Split a text at its special tokens: text, a token, text, and so on; a text may be empty."""
        return [text] if self._tokens is None else self._tokens.split(text)

    def _plain_close(self) -> str:
        """Return the template's token that ends an answer before a question; "" for none."""
        try:
            dummy = {"role": "assistant", "content": _MARK}
            alone = _behind_mark(self._rendered([_QUESTION, dummy], (), asks=False)) or ""
            behind = _behind_mark(self._rendered([_QUESTION, dummy, _QUESTION], ())) or ""
        except Exception:  # noqa: BLE001 - a template may raise anything
            return ""
        ends = self._first_token(alone)
        return self._first_token(behind) if ends else ""

    def _first_token(self, text: str) -> str:
        """Return the special token at the beginning of a text, after whitespace."""
        found = self._tokens.match(text.lstrip()) if self._tokens else None
        return found[0] if found else ""

    def _wants_text_arguments(self) -> bool:
        """Return whether the template takes a call's arguments as JSON text; most take an object."""
        try:
            text = self._applied([_QUESTION, _calling([{_MARK: _MARK}])], None, asks=False)
        except Exception:  # noqa: BLE001 - a template may raise anything
            return True
        return f"'{_MARK}'" in text  # Python's representation of it

    def _refuses_calls_together(self) -> bool:
        """Return whether the template accepts one call and its answer, but not two of each."""
        arguments = "{}" if self._has_text_arguments else {}

        def is_refused(calls: int) -> bool:
            chat = [_QUESTION, _calling([arguments] * calls), *[_ANSWERED] * calls]
            try:
                self._applied(chat, None, asks=True)
            except Exception:  # noqa: BLE001 - a template may raise anything
                return True
            return False

        return not is_refused(1) and is_refused(2)

    def _rendered(
        self, messages: Iterable[Turn], tools: Sequence[Turn], *, asks: bool = True, dummy: bool = False
    ) -> str:
        """Render messages; `asks` adds the start of the policy's turn. A dummy chat has no tools in its prompt."""
        template = self._tokenizer.get_chat_template(None, list(tools) or None)
        shown = None if dummy or not tools else list(tools)
        return self._applied(
            [self._for_template(turn) for turn in messages], shown, asks=asks, chat_template=template
        )

    def _applied(self, messages: list[Turn], tools: list[Any] | None, *, asks: bool, **arguments: Any) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=asks, **arguments
            )
        )

    def _for_template(self, turn: Turn) -> Turn:
        """Return a message for templates: arguments as objects, and a thought without a key in the content."""
        turn = dict(turn)
        if turn.get("content") is None:
            turn["content"] = ""
        if "reasoning_content" in turn:
            thought = turn.pop("reasoning_content")
            if self._thought_key:
                turn[self._thought_key] = thought
            else:
                opening, closing = self._chat.marks[0].texts if self._chat.marks else THINK.texts
                turn["content"] = f"{opening}\n{thought}\n{closing}\n\n{turn['content']}"
        if turn.get("tool_calls") and not self._has_text_arguments:
            turn["tool_calls"] = [
                call
                | {"function": call["function"] | {"arguments": json.loads(call["function"]["arguments"])}}
                for call in turn["tool_calls"]
            ]
        return turn

    def _ids(self, text: str, *, is_whole: bool = False) -> Ids:
        whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        # Not verbose: it would warn about texts beyond the model's own limit, which the engine checks.
        found = self._tokenizer.encode(whole, add_special_tokens=is_whole, verbose=False)
        return np.array(found, np.int32)

    def _token(self, token_id: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token_id))


def _is_asked_for(key: str, template: str) -> bool:
    """Return whether a template reads a key of messages, by a dot or in quotes."""
    return re.search(rf"[.'\"]{key}\b", template) is not None


def _joined(*parts: Ids) -> Ids:
    joined: Ids = np.concatenate(parts)
    return joined


def _calling(arguments: Sequence[Any], name: str = "zq7") -> Turn:
    """Return a message with one call for each of the arguments."""
    calls = [
        {"id": _CALL_ID, "type": "function", "function": {"name": name, "arguments": each}}
        for each in arguments
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _dummy(answer: Turn) -> Turn:
    """Return an answer of the same shape whose only content is the mark."""
    if not answer.get("tool_calls"):
        return {"role": "assistant", "content": _MARK}
    calls = [
        call | {"function": {"name": call["function"]["name"], "arguments": json.dumps({"x": _MARK})}}
        for call in answer["tool_calls"]
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _behind_mark(text: str) -> str | None:
    """Return the text after the last mark."""
    _, mark, behind = text.rpartition(_MARK)
    return behind if mark else None


def _split(pieces: Sequence[str], alone: Sequence[str], stop: str | None, close: str) -> tuple[str, str]:
    """Split the text after an answer into the token that ends it, and the tail.

    Args:
        pieces: of the text after the answer's mark: text, a special token, text, and so on.
        alone: the same without messages after the answer.
        stop: the token that ended the policy's turn; None: it was cut.
        close: the template's end of an answer; "": none.
    """
    common = _shared(pieces, alone)
    is_blank = common < len(pieces) and not pieces[common].strip()
    reach = pieces[: common + 1 + is_blank]  # no further: the messages may have such tokens too
    for token in (stop, close):
        if token and token in reach:
            return token, "".join(pieces[reach.index(token) + 1 :])
    # The template writes no such token: the policy's stop token replaces it, and everything after is tail.
    behind, ended = "".join(pieces), "".join(pieces[:common])
    if common % 2 == 0 and common < min(len(pieces), len(alone)):
        ended += pieces[common][: _shared(pieces[common], alone[common])]
    return "", behind.removeprefix(ended.rstrip())


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
