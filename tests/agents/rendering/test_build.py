"""A run's section says which rendering it has; a tokenizer is loaded without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rendering.build import open_rendering
from agents.rendering.scripted import ScriptedRendering
from broker.messages import FinishReason, Turn
from config.generators import GeneratorsConfig, ScriptedEngineConfig
from config.run import ChatTemplateConfig, ModelConfig
from generators.engines.scripted import STOP_ID, ScriptedChat
from learner.data.prompts import load_tokenizer
from tests.support.chain import make_run
from tests.support.paths import ROOT
from tests.support.tool_families import ARGUMENTS, TOOLS, family_folder

pytestmark = pytest.mark.process

ASKED: Turn = {"role": "user", "content": "2+2?"}


def test_the_first_prompt_is_the_learners_with_the_runs_own_template(tmp_path: Path) -> None:
    template = ChatTemplateConfig(
        text="{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<me>", file=None
    )
    model = ModelConfig(path=str(family_folder("qwen-3", tmp_path)), chat_template=template)
    run = make_run(tmp_path, model=model)
    rendering = open_rendering(run)
    tokenizer = load_tokenizer(run)
    learners = tokenizer.apply_chat_template([ASKED], add_generation_prompt=True, return_dict=False)
    assert rendering.first([ASKED], ()).tolist() == list(learners)
    assert "does not show tools" in rendering.objection(TOOLS)


@pytest.mark.prove
def test_a_tokenizer_is_loaded_without_torch(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from agents.rendering.templated import load_rendering\n"
        "from config.run import ModelConfig\n"
        f"rendering = load_rendering(ModelConfig(path={str(family_folder('qwen-3', tmp_path))!r}))\n"
        "print(len(rendering.first([{'role': 'user', 'content': 'hi'}], ())))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(len("_user\nhi_\n_assistant\n"))


def test_a_script_is_played_with_bytes(tmp_path: Path) -> None:
    answers = [
        f'<think>add</think>I look.<tool_call>{{"name": "search", "arguments": {ARGUMENTS}}}</tool_call>'
    ]
    rendering = open_rendering(
        make_run(tmp_path, generators=GeneratorsConfig(engine=ScriptedEngineConfig(answers=answers)))
    )
    assert isinstance(rendering, ScriptedRendering)
    prompt = rendering.first([ASKED], TOOLS)
    sampled = np.array([*answers[0].encode(), STOP_ID], np.int32)
    spoken = rendering.message(prompt, sampled, FinishReason.STOP, tools=TOOLS)
    (call,) = spoken.message["tool_calls"]
    assert call["function"] == {"name": "search", "arguments": ARGUMENTS}
    assert (spoken.message["content"], spoken.message["reasoning_content"]) == ("I look.", "add")
    said: list[Turn] = [{"role": "tool", "content": "four", "tool_call_id": call["id"]}]
    history = [ASKED, spoken.message]
    found = rendering.following(prompt, sampled, FinishReason.STOP, history=history, said=said, tools=TOOLS)
    np.testing.assert_array_equal(found, rendering.first([*history, *said], TOOLS))


@given(answer=st.text(alphabet="ab<>{}é", max_size=20), is_cut=st.booleans(), said=st.text(max_size=10))
@settings(max_examples=50, deadline=None)
def test_a_scripts_turns_are_the_whole_conversation(answer: str, is_cut: bool, said: str) -> None:
    rendering = ScriptedRendering()
    finish = FinishReason.LENGTH if is_cut else FinishReason.STOP
    sampled = np.array([*answer.encode(), *[STOP_ID][is_cut:]], np.int32)
    if not len(sampled):
        return
    prompt = rendering.first([ASKED], ())
    history = [ASKED, rendering.message(prompt, sampled, finish).message]
    turns: list[Turn] = [{"role": "user", "content": said}]
    found = rendering.following(prompt, sampled, finish, history=history, said=turns, tools=())
    np.testing.assert_array_equal(found, rendering.first([*history, *turns], ()))
    assert rendering.text(prompt, sampled, finish) == ScriptedChat().text((), sampled.tolist(), finish)
    assert json.loads(json.dumps(history)) == history
