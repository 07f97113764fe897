#!/usr/bin/env bash
# smolagents 1.26.0: what its agents send back as the model's answer is not what the model answered.
# Seen: a CodeAgent whose model answers "Thought: add.\n<code>\nx = 2 + 2\nprint(x)\n" (the end tag is the stop sequence,
# so a server leaves it out) sends, in its next call, that answer stripped, with "</code>" put behind it, and then
# "Calling tools:\n[{'id': 'call_1', ..." as text in the same assistant's message. So the second prompt does not begin
# with the first prompt and the sampled tokens: a server's cache of prefixes ends at the answer, and a trainer that
# compares histories by equality takes each step for a new conversation.
# To do: take an assistant's message for the earlier answer where it begins with it, and keep the sampled tokens.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'smolagents==1.26.0'
"$folder/venv/bin/python" - <<'PYTHON'
from smolagents import ChatMessage, CodeAgent, MessageRole, Model

ANSWERS = ["Thought: add.\n<code>\nx = 2 + 2\nprint(x)\n", "<code>\nfinal_answer(4)\n"]


class Scripted(Model):
    def __init__(self) -> None:
        super().__init__(model_id="scripted")
        self.prompts: list[list[dict]] = []

    def generate(self, messages, stop_sequences=None, **others) -> ChatMessage:
        sent = self._prepare_completion_kwargs(messages=messages, stop_sequences=stop_sequences)
        self.prompts.append([{**message} for message in sent["messages"]])
        return ChatMessage(role=MessageRole.ASSISTANT, content=ANSWERS[len(self.prompts) - 1])


model = Scripted()
assert CodeAgent(tools=[], model=model, verbosity_level=0).run("What is 2 + 2?") == 4
first, second = model.prompts
assert second[: len(first)] == first
answer = second[len(first)]
text = "".join(part["text"] for part in answer["content"])
print(answer["role"], repr(text))
assert text != ANSWERS[0], "the history has the answer as it was given now"
assert text.startswith(ANSWERS[0].strip()), text
assert "</code>" in text, text
assert "Calling tools:\n[{'id': 'call_1'" in text, text
PYTHON
