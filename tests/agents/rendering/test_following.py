"""The next prompt is what was given, what was sampled, and the template's own tail; or there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from agents.rendering.rendering import Unrenderable
from agents.rendering.templated import TemplatedRendering, load_rendering
from broker.messages import NO_IDS, FinishReason, Ids, Turn
from config.run import ModelConfig
from tests.support.chat_families import ASSISTANT, FAMILIES, write_family
from tests.support.renderings import Opened, ids_of, text_of
from tests.support.tool_families import ARGUMENTS, SAYS, TOOL_FAMILIES, TOOLS

pytestmark = pytest.mark.model

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
ASKED: Turn = {"role": "user", "content": "2+2?"}
AGAIN: Turn = {"role": "user", "content": "and 3+3?"}
# What each family says in the end, and the token that it ends with.
ANSWERS = {
    name: (" Four." if name[-2:] in {"v2", "v3", "v7"} else "Four.", says.end) for name, says in SAYS.items()
} | {
    "glm-4.5": ("\n<think></think>\nFour.", "<|user|>"),
    "gpt-oss": ("<|channel|>final<|message|>Four.", "<|return|>"),
}
# Their templates put tools, or the system's words, into the newest question: an older one reads otherwise then.
MOVE_TOOLS = {"mistral-v2", "mistral-v3", "mistral-v7", "mistral-v11"}
HAVE_ENDS = sorted(set(ANSWERS) - {"glm-4.5"})


def next_prompt(
    rendering: TemplatedRendering,
    history: Sequence[Turn],
    sampled: Ids,
    said: Sequence[Turn],
    *,
    finish: FinishReason = STOP,
    tools: Sequence[Turn] = TOOLS,
) -> tuple[Ids, Ids]:
    """Return the next prompt, which is empty where there is none, and the whole with the policy's own message."""
    prompt = rendering.first(history, tools)
    message = rendering.message(prompt, sampled, finish, tools=tools).message
    whole = [*history, message]
    found = rendering.following(prompt, sampled, finish, history=whole, said=said, tools=tools)
    if found is not None:
        np.testing.assert_array_equal(found[: len(prompt) + len(sampled)], np.concatenate([prompt, sampled]))
    return NO_IDS if found is None else found, rendering.first([*whole, *said], tools)


def results_of(message: Turn, *texts: str) -> list[Turn]:
    calls = message["tool_calls"]
    return [
        {
            "role": "tool",
            "name": "search",
            "content": text,
            "tool_call_id": calls[min(place, len(calls) - 1)]["id"],
        }
        for place, text in enumerate(texts)
    ]


@pytest.mark.parametrize("name", SAYS)
def test_a_call_is_read_and_its_answer_follows_as_the_template_has_it(name: str, opened: Opened) -> None:
    rendering, says = opened(name), SAYS[name]
    assert rendering.objection(TOOLS) == ""
    prompt = rendering.first([ASKED], TOOLS)
    sampled = ids_of(rendering, says.before + says.call + says.end)
    spoken = rendering.message(prompt, sampled, STOP, tools=TOOLS)
    (call,) = spoken.message.get("tool_calls") or [None]
    assert call is not None, spoken
    assert call["function"] == {"name": "search", "arguments": ARGUMENTS}
    assert call["id"] == (says.id or call["id"])
    assert (spoken.message["content"], spoken.unread) == (says.before, "")
    found, whole = next_prompt(rendering, [ASKED], sampled, results_of(spoken.message, "four"))
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("name", sorted({*ANSWERS} - MOVE_TOOLS))
def test_a_question_follows_an_answer_as_the_template_has_it(name: str, opened: Opened) -> None:
    rendering, (answer, end) = opened(name), ANSWERS[name]
    sampled = ids_of(rendering, answer + end)
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN])
    told = text_of(rendering, found)
    if end == "<|return|>":  # in the history an answer ends otherwise
        told = told.replace("<|return|>", "<|end|>")
    assert told == text_of(rendering, whole)


@pytest.mark.parametrize("name", sorted(MOVE_TOOLS))
def test_where_a_question_moves_what_stands_before_it_there_is_no_tail(name: str, opened: Opened) -> None:
    rendering = opened(name)
    sampled = ids_of(rendering, "".join(ANSWERS[name]))
    assert not len(next_prompt(rendering, [ASKED], sampled, [AGAIN])[0])
    assert len(next_prompt(rendering, [ASKED], sampled, [AGAIN], tools=())[0])


def test_a_systems_words_that_move_to_the_newest_question_leave_no_tail(tmp_path: Path) -> None:
    rendering = load_rendering(ModelConfig(path=str(write_family(tmp_path / "model", FAMILIES["mistral-3"]))))
    sampled = ids_of(rendering, "Four.</s>")
    system: Turn = {"role": "system", "content": "Be brief."}
    assert not len(next_prompt(rendering, [system, ASKED], sampled, [AGAIN], tools=())[0])
    assert len(next_prompt(rendering, [ASKED], sampled, [AGAIN], tools=())[0])


@pytest.mark.parametrize("name", HAVE_ENDS)
def test_a_turn_that_was_cut_is_ended_in_the_tail(name: str, opened: Opened) -> None:
    rendering, (answer, end) = opened(name), ANSWERS[name]
    end = "<|end|>" if end == "<|return|>" else end
    tools = () if name in MOVE_TOOLS else TOOLS
    sampled = ids_of(rendering, answer[:-2])
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN], finish=LENGTH, tools=tools)
    tail = found[len(rendering.first([ASKED], tools)) + len(sampled) :]
    assert text_of(rendering, tail).startswith(end)
    np.testing.assert_array_equal(tail, whole[-len(tail) :])


def test_a_turn_that_no_token_ends_goes_over_into_the_next(opened: Opened) -> None:
    rendering = opened("glm-4.5")
    answer = "\n<think></think>\nFou"
    for finish, end, begins in (
        (LENGTH, "", "<|user|>"),
        (STOP, "<|endoftext|>", "<|user|>"),  # the template writes no such token: it stays, and all follows
        (STOP, "<|user|>", "\n"),  # sampled already
    ):
        sampled = ids_of(rendering, answer + end)
        found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN], finish=finish)
        prompt = rendering.first([ASKED], TOOLS)
        assert text_of(rendering, found[len(prompt) + len(sampled) :]).startswith(begins)
        assert text_of(rendering, found).replace("<|endoftext|>", "") == text_of(rendering, whole)


def test_another_end_than_the_templates_takes_its_place(opened: Opened) -> None:
    rendering = opened("qwen-2.5")
    sampled = ids_of(rendering, "Four.<|endoftext|>")
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN])
    assert text_of(rendering, found).replace("<|endoftext|>", "<|im_end|>") == text_of(rendering, whole)


# A turn ends with a token that the template does not write there, and writes where a tool or a user speaks.
MISLEADING = {
    "glm-4.5": ("<|user|>", "four"),
    "qwen-2.5": ("<|endoftext|>", "a page<|endoftext|>another"),
    "deepseek-v3": (ASSISTANT, "four"),
}


@pytest.mark.parametrize("name", MISLEADING)
def test_no_token_of_what_was_said_is_taken_for_the_turns_end(name: str, opened: Opened) -> None:
    rendering, (end, result) = opened(name), MISLEADING[name]
    sampled = ids_of(rendering, SAYS[name].call + end)
    prompt = rendering.first([ASKED], TOOLS)
    message = rendering.message(prompt, sampled, STOP, tools=TOOLS).message
    said = [*results_of(message, result), AGAIN] if name != "deepseek-v3" else results_of(message, result)
    found, _ = next_prompt(rendering, [ASKED], sampled, said)
    assert result in text_of(rendering, found[len(prompt) + len(sampled) :])


@pytest.mark.parametrize("name", sorted({*SAYS} - {"gpt-oss", "mistral-v2"}))
def test_answers_of_several_tools_stand_in_a_row_as_the_template_has_them(name: str, opened: Opened) -> None:
    rendering, says = opened(name), SAYS[name]
    sampled = ids_of(rendering, says.before + says.call + says.end)
    message = rendering.message(rendering.first([ASKED], TOOLS), sampled, STOP, tools=TOOLS).message
    found, whole = next_prompt(rendering, [ASKED], sampled, results_of(message, "four", "4", ""))
    np.testing.assert_array_equal(found, whole)


def test_a_thought_that_the_template_drops_from_the_history_stays_where_it_was_sampled(
    opened: Opened,
) -> None:
    rendering = opened("qwen-3")
    sampled = ids_of(rendering, "<think>\nadd\n</think>\n\nFour.<|im_end|>")
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN])
    assert "add" in text_of(rendering, found)
    assert "add" not in text_of(rendering, whole)
    assert text_of(rendering, found).replace("<think>\nadd\n</think>\n\n", "") == text_of(rendering, whole)


def test_a_thought_that_was_cut_is_ended_as_the_template_ends_it(opened: Opened) -> None:
    sampled = ids_of(opened("qwen-2.5"), "<think>\nad")  # where a template has no key for thoughts
    found, whole = next_prompt(opened("qwen-2.5"), [ASKED], sampled, [AGAIN], finish=LENGTH)
    np.testing.assert_array_equal(found, whole)
    rendering = opened("qwen-3")
    sampled = ids_of(rendering, "<think>\nad")
    said: Turn = {"role": "tool", "name": "search", "content": "wait"}
    found, whole = next_prompt(rendering, [ASKED], sampled, [said], finish=LENGTH)
    np.testing.assert_array_equal(found, whole)
    found, _ = next_prompt(rendering, [ASKED], sampled, [AGAIN], finish=LENGTH)  # where it would be dropped
    assert "\nad<|im_end|>\n<|im_start|>user\n" in text_of(rendering, found)


# Where a template has a key for thoughts, or has none and takes them in the content, they stand as they were sampled.
THOUGHTS = {
    "gpt-oss": (
        "<|channel|>analysis<|message|>add<|end|><|start|>assistant to=functions.search<|channel|>commentary json"
        f"<|message|>{ARGUMENTS}<|call|>"
    ),
    "qwen-2.5": f"<think>\nadd\n</think>\n\nI look.{SAYS['qwen-2.5'].call}<|im_end|>",
    "qwen-3": f"<think>\nadd\n</think>\n\nI look.{SAYS['qwen-3'].call}<|im_end|>",
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_a_thought_before_a_call_is_told_apart_and_rendered_in_its_place(name: str, opened: Opened) -> None:
    rendering = opened(name)
    sampled = ids_of(rendering, THOUGHTS[name])
    spoken = rendering.message(rendering.first([ASKED], TOOLS), sampled, STOP, tools=TOOLS)
    assert spoken.message["reasoning_content"] == "add"
    assert "add" not in spoken.message["content"]
    found, whole = next_prompt(rendering, [ASKED], sampled, results_of(spoken.message, "four"))
    np.testing.assert_array_equal(found, whole)


def test_a_call_in_a_thought_that_has_not_ended_ends_it(opened: Opened) -> None:
    rendering = opened("qwen-3")
    sampled = ids_of(rendering, f"<think>\nadd{SAYS['qwen-3'].call}<|im_end|>")
    spoken = rendering.message(rendering.first([ASKED], TOOLS), sampled, STOP, tools=TOOLS)
    assert spoken.message["reasoning_content"] == "add"
    assert len(spoken.message["tool_calls"]) == 1
    assert len(next_prompt(rendering, [ASKED], sampled, results_of(spoken.message, "four"))[0])
    thought = ids_of(rendering, "<think>\nI might write <tool_call> here<|im_end|>")
    assert rendering.message(rendering.first([ASKED], TOOLS), thought, STOP, tools=TOOLS).message == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I might write <tool_call> here",
    }


# How the same words are tokenized, and how a call is written, is the policy's: a rendering would write it otherwise.
ODD = {
    "a space more": ('<tool_call>{"name":  "search", "arguments": {"query": "a"}}</tool_call>', '{"query": "a"}'),
    "other order": ('<tool_call>{"arguments": {"query": "a"}, "name": "search"}</tool_call>', '{"query": "a"}'),
    "escaped": ('<tool_call>{"name": "search", "arguments": {"query": "\\u00e9"}}</tool_call>', '{"query": "é"}'),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_what_was_sampled_stays_as_it_was_though_the_template_writes_it_otherwise(
    case: str, opened: Opened
) -> None:
    rendering, (call, arguments) = opened("qwen-2.5"), ODD[case]
    sampled = ids_of(rendering, call + "<|im_end|>")
    prompt = rendering.first([ASKED], TOOLS)
    message = rendering.message(prompt, sampled, STOP, tools=TOOLS).message
    assert message["tool_calls"][0]["function"]["arguments"] == arguments
    found, whole = next_prompt(rendering, [ASKED], sampled, results_of(message, "four"))
    assert found.tolist() != whole.tolist()
    tail = found[len(prompt) + len(sampled) :]
    np.testing.assert_array_equal(tail, whole[-len(tail) :])


def test_a_truth_value_in_tags_stays_as_it_was_sampled(opened: Opened) -> None:
    rendering = opened("qwen-3-coder")
    text = "<tool_call>\n<function=search>\n<parameter=exact>\nFalse\n</parameter>\n</function>\n</tool_call><|im_end|>"
    sampled = ids_of(rendering, text)
    message = rendering.message(rendering.first([ASKED], TOOLS), sampled, STOP, tools=TOOLS).message
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"exact": False}
    found, whole = next_prompt(rendering, [ASKED], sampled, results_of(message, "four"))
    assert "\nFalse\n" in text_of(rendering, found)
    assert "\nfalse\n" in text_of(rendering, whole)


def test_a_token_that_takes_the_white_space_behind_it_is_tokenized_with_it(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "model", TOOL_FAMILIES["qwen-2.5"])
    rendering = load_rendering(ModelConfig(path=str(folder)))
    rendering._tokenizer.backend_tokenizer.add_special_tokens(
        [AddedToken("<|im_end|>", rstrip=True, special=True)]
    )
    assert len(ids_of(rendering, "<|im_end|>\n<|im_start|>")) == 2
    sampled = ids_of(rendering, "Four.<|im_end|>")
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN])
    np.testing.assert_array_equal(found, whole)


PLAIN = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
    '<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ ARGUMENTS }}}</tool_call>'
    "{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.mark.parametrize("arguments", ["c.function.arguments | tojson", "c.function.arguments"])
@pytest.mark.parametrize("finish", [STOP, LENGTH])
@pytest.mark.parametrize(
    "answer", ["Four.", f'<tool_call>{{"name": "search", "arguments": {ARGUMENTS}}}</tool_call>']
)
def test_a_template_of_plain_words_has_a_tail_too(
    finish: FinishReason, answer: str, arguments: str, tmp_path: Path
) -> None:
    template = PLAIN.replace("ARGUMENTS", arguments)
    folder = write_family(tmp_path / "model", FAMILIES["qwen"], chat_template=template)
    rendering = load_rendering(ModelConfig(path=str(folder)))
    sampled = ids_of(rendering, answer + "<|im_end|>" * (finish is STOP))
    found, whole = next_prompt(rendering, [ASKED], sampled, [AGAIN], finish=finish, tools=())
    assert text_of(rendering, found).replace("<|im_end|>", "") == text_of(rendering, whole)


def test_an_end_that_the_newest_turn_lacks_stands_once(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
        "{% if not loop.last or add_generation_prompt %}{{ '\\n' }}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
    )
    folder = write_family(tmp_path / "model", TOOL_FAMILIES["qwen-2.5"], chat_template=template)
    rendering = load_rendering(ModelConfig(path=str(folder)))
    found, whole = next_prompt(rendering, [ASKED], ids_of(rendering, "Four.\n<|im_end|>"), [AGAIN], tools=())
    assert text_of(rendering, found) == text_of(rendering, whole).replace("\n\n", "\n")


def test_half_a_surrogate_pair_from_a_tool_is_no_text(opened: Opened) -> None:
    rendering = opened("qwen-2.5")
    sampled = ids_of(rendering, "Four.<|im_end|>")
    found, whole = next_prompt(rendering, [ASKED], sampled, [{"role": "user", "content": "a\ud800b"}])
    np.testing.assert_array_equal(found, whole)
    assert "a?b" in text_of(rendering, found)


OBJECTIONS = {
    "lists none": (FAMILIES["deepseek"].template, "does not show tools"),
    "drops their answers": (FAMILIES["qwen"].template, "does not show what tools answer"),
    "refuses their role": (FAMILIES["mistral"].template, "does not show tools"),
    "fails": ("{{ tools[0].function.name }}{{ messages[1].content.split(1) }}", "fails with tools: line 1: "),
}


@pytest.mark.parametrize("case", OBJECTIONS)
def test_a_template_that_would_hide_tools_is_objected_to(case: str, tmp_path: Path) -> None:
    template, reason = OBJECTIONS[case]
    folder = write_family(tmp_path / "model", TOOL_FAMILIES["qwen-2.5"], chat_template=template)
    rendering = load_rendering(ModelConfig(path=str(folder)))
    assert reason in rendering.objection(TOOLS)
    assert str(folder) in rendering.objection(TOOLS)
    assert rendering.objection(()) == ""


def test_the_oldest_mistral_shows_no_tools(opened: Opened) -> None:
    assert "does not show tools" in opened("mistral-v1").objection(TOOLS)


def test_what_a_template_refuses_is_named_with_its_line(opened: Opened) -> None:
    with pytest.raises(
        Unrenderable, match=r"mistral-v3 fails: line \d+: TemplateError: Conversation must start"
    ):
        opened("mistral-v3").first([{"role": "assistant", "content": "Four."}], TOOLS)


@pytest.mark.parametrize(
    ("name", "two"),
    [
        ("llama-3.1", "; ".join([f'{{"name": "search", "parameters": {ARGUMENTS}}}'] * 2)),
        ("mistral-v2", "[TOOL_CALLS] " + json.dumps([{"name": "search", "arguments": {"query": "2+2"}}] * 2)),
    ],
)
def test_two_calls_are_unread_where_the_template_takes_one(name: str, two: str, opened: Opened) -> None:
    rendering = opened(name)
    sampled = ids_of(rendering, two + SAYS[name].end)
    spoken = rendering.message(rendering.first([ASKED], TOOLS), sampled, STOP, tools=TOOLS)
    assert spoken.message == {"role": "assistant", "content": two}
    assert spoken.unread == "2 calls in one turn; this model takes 1 at a time"


def test_a_turn_played_again_has_the_same_ids_of_calls_and_another_turn_has_others(opened: Opened) -> None:
    rendering = opened("qwen-2.5")
    sampled = ids_of(rendering, SAYS["qwen-2.5"].call * 2 + "<|im_end|>")
    prompt = rendering.first([ASKED], TOOLS)

    def ids(prompt: Ids) -> list[str]:
        calls = rendering.message(prompt, sampled, STOP, tools=TOOLS).message["tool_calls"]
        return [call["id"] for call in calls]

    assert ids(prompt) == ids(prompt)
    assert len({*ids(prompt), *ids(rendering.first([AGAIN], TOOLS))}) == 4
    assert all(len(each) == 9 and each.isalnum() for each in ids(prompt))


PIECES = (
    "<|im_end|>", "<|im_start|>", "\n", " ", "</tool_call>", "<tool_response>", "Zq7mark", "[/INST]", "</s>", "é", "<",
)  # fmt: skip
TEXTS = st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@given(
    name=st.sampled_from(sorted(SAYS)),
    tokens=st.none() | st.lists(st.integers(0, 500), min_size=1, max_size=12),  # None: a call
    is_stopped=st.booleans(),
    is_question=st.booleans(),  # and not a tool's answer
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    tools=st.sampled_from([TOOLS, ()]),
)
@settings(max_examples=100, deadline=None)
def test_whatever_was_sampled_stays_and_what_follows_ends_the_whole(
    *,
    name: str,
    tokens: Any,
    is_stopped: bool,
    is_question: bool,
    texts: list[str],
    tools: Any,
    opened: Opened,
) -> None:
    rendering, says = opened(name), SAYS[name]
    end = ids_of(rendering, says.end * is_stopped)
    if tokens is None:
        sampled = ids_of(rendering, says.call + says.end * is_stopped)
    else:
        size = len(rendering._tokenizer)
        sampled = np.concatenate([np.array([token % size for token in tokens], np.int32), end])
    finish = STOP if is_stopped else LENGTH
    prompt = rendering.first([ASKED], tools)
    message = rendering.message(prompt, sampled, finish, tools=tools).message
    said: list[Turn] = [{"role": "user", "content": text} for text in texts]
    if message.get("tool_calls") and not is_question:
        said = results_of(message, *texts)
    history = [ASKED, message]
    found = rendering.following(prompt, sampled, finish, history=history, said=said, tools=tools)
    if found is None:
        return
    np.testing.assert_array_equal(found[: len(prompt) + len(sampled)], np.concatenate([prompt, sampled]))
    tail = found[len(prompt) + len(sampled) :]
    np.testing.assert_array_equal(tail, rendering.first([*history, *said], tools)[-len(tail) :])
    told = text_of(rendering, tail)
    written = [(text.strip(), json.dumps(text, ensure_ascii=False)[1:-1]) for text in texts]
    assert all(plain in told or quoted in told for plain, quoted in written)
