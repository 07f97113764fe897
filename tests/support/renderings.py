"""Renderings of families with tools, and text as their ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agents.rendering.templated import TemplatedRendering
from broker.messages import Ids

Opened = Callable[[str], TemplatedRendering]


def ids_of(rendering: TemplatedRendering, text: str) -> Ids:
    """Return a text's ids, as a policy might sample them."""
    return np.array(rendering._tokenizer.encode(text, add_special_tokens=False), np.int32)


def text_of(rendering: TemplatedRendering, ids: Ids) -> str:
    """Return the text of ids, with special tokens."""
    return str(rendering._tokenizer.decode(ids.tolist()))
