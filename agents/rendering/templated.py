"""The rendering of a model: its own chat template makes the first prompt, and the tail of every other.

In and out: as `agents.rendering.rendering.Rendering` says. The tail is cut from a dummy conversation of one question,
an answer of the shape of the policy's own, and what was said then. It counts only where the whole conversation,
rendered by the same template, ends with just that tail: else there is none. Used by the agents' worker.
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

_MARK: Final = "Zq7mark"  # stands where the dummy's answer and arguments end
_QUESTION: Final[Turn] = {"role": "user", "content": "Zq7question"}
_RESULT: Final = "Zq7result"
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking")  # of a message, as templates name them
_CALL_ID: Final = "zq7result"  # nine letters and digits, as Mistral's templates want them
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
    """A `Rendering` by a tokenizer and its chat template.

    Args:
        tokenizer: with the template that renders the run's prompts.
        chat: of the same tokenizer.
        name: of the template, for people.
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
        """Return why the policy would not see tools or what they answer; "" where it does."""
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
        except Exception as error:  # noqa: BLE001 - a template raises what it likes
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
        """Return the next prompt, or None where the template has no tail for what was said."""
        stop = self._token(int(sampled[-1])) if finish is FinishReason.STOP else None
        if any(_MARK in repr(turn) for turn in said):  # the tail would be cut from behind it
            return None
        try:
            found = self._open_tail(given, sampled, said, tools) if stop is None else None
            found = found or self._tail(history[-1], said, tools, stop)
            if found is None or not self._rendered([*history, *said], tools).endswith("".join(found)):
                return None
        except Exception:  # noqa: BLE001 - a template raises what it likes
            return None
        ended, tail = found
        ids = self._ids(ended + tail)  # in one go: a token may take the white space behind it
        if ended and stop is not None:  # the policy has ended its turn itself
            if not len(ids) or self._token(int(ids[0])) != ended:
                return None
            ids = ids[1:]
        return _joined(given, sampled, ids)

    def plain(self, text: str) -> Ids:
        """Return the ids of a text, with what the tokenizer puts before each, as servers of completions have it."""
        return self._ids(text, is_whole=True)

    def message(
        self, given: Ids, sampled: Ids, finish: FinishReason, *, tools: Sequence[Turn] = ()
    ) -> Spoken:
        """Return what the policy said, with its thought and its tool calls told apart."""
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
        """Return the text that scorers and people see."""
        return self._chat.text(given.tolist(), sampled.tolist(), finish)

    def _tail(
        self, answer: Turn, said: Sequence[Turn], tools: Sequence[Turn], stop: str | None
    ) -> tuple[str, str] | None:
        """Return the token that ends the policy's turn in the template, "" where none does, and what follows it.

        Args:
            answer: the policy's own message; the dummy has its calls' names and ids, and nothing else of it.
            said: what was said then.
            tools: that choose the template, where a tokenizer has several.
            stop: the token that the policy ended its turn with; None: it was cut.
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
        """Return the tail of a turn that was cut in a thought: as the template ends the thought, and then the turn.

        None where the turn was not in a thought, or the template drops it from the history.
        """
        text = self._chat.said(given.tolist(), sampled.tolist(), FinishReason.LENGTH)
        if parted(text, self._chat.marks).answer is not None:
            return None
        dummy = {"role": "assistant", "content": "", "reasoning_content": _MARK}
        behind = _behind_mark(self._rendered([_QUESTION, dummy, *said], tools, dummy=True))
        return None if behind is None else ("", behind)

    def _pieces(self, text: str) -> list[str]:
        """Return a text cut at its special tokens: text, a token, text, and so on; a text may be empty."""
        return [text] if self._tokens is None else self._tokens.split(text)

    def _plain_close(self) -> str:
        """Return the token with which the template ends an answer before a question; "" where none does."""
        try:
            dummy = {"role": "assistant", "content": _MARK}
            alone = _behind_mark(self._rendered([_QUESTION, dummy], (), asks=False)) or ""
            behind = _behind_mark(self._rendered([_QUESTION, dummy, _QUESTION], ())) or ""
        except Exception:  # noqa: BLE001 - a template raises what it likes
            return ""
        ends = self._first_token(alone)
        return self._first_token(behind) if ends else ""

    def _first_token(self, text: str) -> str:
        """Return the special token that a text begins with, behind white space."""
        found = self._tokens.match(text.lstrip()) if self._tokens else None
        return found[0] if found else ""

    def _wants_text_arguments(self) -> bool:
        """Return whether the template takes a call's arguments as JSON's text; most take an object."""
        try:
            text = self._applied([_QUESTION, _calling([{_MARK: _MARK}])], None, asks=False)
        except Exception:  # noqa: BLE001 - a template raises what it likes
            return True
        return f"'{_MARK}'" in text  # Python's words for it

    def _refuses_calls_together(self) -> bool:
        """Return whether the template takes a call and its answer, and not two of each."""
        arguments = "{}" if self._has_text_arguments else {}

        def is_refused(calls: int) -> bool:
            chat = [_QUESTION, _calling([arguments] * calls), *[_ANSWERED] * calls]
            try:
                self._applied(chat, None, asks=True)
            except Exception:  # noqa: BLE001 - a template raises what it likes
                return True
            return False

        return not is_refused(1) and is_refused(2)

    def _rendered(
        self, messages: Iterable[Turn], tools: Sequence[Turn], *, asks: bool = True, dummy: bool = False
    ) -> str:
        """Render messages; `asks` adds what begins the policy's turn. A dummy chat has no tools in its prompt."""
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
        """Return a message as templates take it: arguments as objects, a thought in the content where it has no key."""
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
        whole = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
        # Not verbose: it would warn of what is longer than the model's own limit, and the engine knows that limit.
        found = self._tokenizer.encode(whole, add_special_tokens=is_whole, verbose=False)
        return np.array(found, np.int32)

    def _token(self, token_id: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token_id))


def _is_asked_for(key: str, template: str) -> bool:
    """Return whether a template asks a message for a key, by a dot or in quotes."""
    return re.search(rf"[.'\"]{key}\b", template) is not None


def _joined(*parts: Ids) -> Ids:
    joined: Ids = np.concatenate(parts)
    return joined


def _calling(arguments: Sequence[Any], name: str = "zq7") -> Turn:
    """Return a message with a call for each arguments."""
    calls = [
        {"id": _CALL_ID, "type": "function", "function": {"name": name, "arguments": each}}
        for each in arguments
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _dummy(answer: Turn) -> Turn:
    """Return an answer of the same shape that says nothing but the mark."""
    if not answer.get("tool_calls"):
        return {"role": "assistant", "content": _MARK}
    calls = [
        call | {"function": {"name": call["function"]["name"], "arguments": json.dumps({"x": _MARK})}}
        for call in answer["tool_calls"]
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _behind_mark(text: str) -> str | None:
    """Return what stands behind the last mark."""
    _, mark, behind = text.rpartition(_MARK)
    return behind if mark else None


def _split(pieces: Sequence[str], alone: Sequence[str], stop: str | None, close: str) -> tuple[str, str]:
    """Split what stands behind an answer into the token that ends it, and the tail.

    Args:
        pieces: all behind the answer's mark: text, a special token, text, and so on.
        alone: the same where nothing was said after the answer.
        stop: the token that the policy ended with; None: it was cut.
        close: with which the template ends an answer; "": with none.
    """
    common = _shared(pieces, alone)
    is_blank = common < len(pieces) and not pieces[common].strip()
    reach = pieces[: common + 1 + is_blank]  # no further: what was said may have such tokens too
    for token in (stop, close):
        if token and token in reach:
            return token, "".join(pieces[reach.index(token) + 1 :])
    # The template writes no such token: what the policy ended with stands in its place, and all that follows is tail.
    behind, ended = "".join(pieces), "".join(pieces[:common])
    if common % 2 == 0 and common < min(len(pieces), len(alone)):
        ended += pieces[common][: _shared(pieces[common], alone[common])]
    return "", behind.removeprefix(ended.rstrip())


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many items two sequences have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
