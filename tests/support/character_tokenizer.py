"""A tokenizer without a model: each character is one token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class OneTokenACharacter:
    """A tokenizer whose ids are the characters' own numbers."""

    chat_template = "yes"

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
        assert options == {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        return [ord(character) for turn in messages for character in turn["content"]]
