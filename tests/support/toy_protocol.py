"""A researcher's own prompt for a served model: whether an answer is polite. The model says a number of stars.

Loaded by its import path, as `type: custom` does, by tests/scorers/served_model/test_protocol.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.errors import BadMessage
from config.endpoint import EndpointConfig
from scorers.served_model.client import Reply
from scorers.served_model.marks import enclosed, nonce_for
from scorers.served_model.protocol import CUT_OFF, ModelQuestion, Ruling
from scorers.served_model.rule import MathRule
from scorers.served_model.scorer import ServedModelScorer


@dataclass(frozen=True)
class StarsRow:
    """The row says who is spoken to."""

    reader: str


class StarsProtocol:
    """The model is asked for one to five stars."""

    name, asked = "stars", "the reader"

    def version(self, model: str) -> str:
        return f"1 model {model}"

    def read_row(self, verification_info: Mapping[str, Any]) -> StarsRow:
        reader = verification_info.get("answer", {}).get("reader")
        if not reader:
            raise BadMessage("a row without a reader")
        return StarsRow(reader)

    def asks_rule(self, row: StarsRow) -> bool:
        return False

    def question_of(self, text: str, row: StarsRow, rule: MathRule) -> ModelQuestion[str] | Ruling:
        if not text.strip():
            return Ruling(0.0, "no answer")
        key = json.dumps(["stars", row.reader, text])
        prompt = f"You are {row.reader}. How many stars?\n{enclosed(text, nonce_for(key, text))}"
        return ModelQuestion(text, [{"role": "user", "content": prompt}], key)

    def ruling_of(self, reply: Reply, question: ModelQuestion[str]) -> Ruling:
        stars = len(reply.text or "")
        if reply.finish_reason == CUT_OFF or reply.text != "*" * stars or not 1 <= stars <= 5:
            return Ruling(None, f"no stars: {reply.text!r}")
        return Ruling((stars - 1) / 4, f"{stars} stars for {question.case!r}", {"stars": float(stars)})

    def self_test_questions(self) -> Sequence[ModelQuestion[str]]:
        row = StarsRow("a friend")
        questions = [self.question_of(text, row, MathRule()) for text in ("Thanks!", "Go away.")]
        return [question for question in questions if isinstance(question, ModelQuestion)]

    def self_test_problem(self, rulings: Sequence[Ruling]) -> str | None:
        polite, rude = (ruling.value for ruling in rulings)
        return None if polite is not None and rude is not None and polite > rude else f"{polite} and {rude}"


class StarsAnswer(ServedModelScorer[StarsRow, str]):
    """A scorer for `type: custom`."""

    def __init__(self, url: str) -> None:
        super().__init__(StarsProtocol(), EndpointConfig(urls=(url,), timeout_s=5.0))
