"""The demo's model as base models are found: their files say what a library refuses, and all of them train."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file

from tests.support.paths import ROOT

DEMO = ROOT / "config" / "recipes" / "demo_model"


def with_generation_config(folder: Path) -> None:
    """Llama-2-chat's: transformers 5.19.0 reads it, and refuses to save it."""
    _change(folder / "generation_config.json", temperature=0.6, top_p=0.9, max_length=4096)


def with_own_head(folder: Path) -> None:
    """A head of its own, though the config ties it: transformers 5.19.0 keeps it, vLLM 0.32.0 drops it."""
    _change(folder / "config.json", tie_word_embeddings=True)
    weights = load_file(folder / "model.safetensors")
    assert not torch.equal(weights["lm_head.weight"], weights["model.embed_tokens.weight"])


def with_odd_tokenizer(folder: Path) -> None:
    """Two templates, one of a name that transformers 5.19.0 reads and refuses to write; and tokens of its own."""
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    templates = [{"name": name, "template": template} for name in ("default", "tools/of old")]
    _change(folder / "tokenizer_config.json", chat_template=templates)


BASES: Mapping[str, Callable[[Path], None]] = {
    "generation config": with_generation_config,
    "own head": with_own_head,
    "odd tokenizer": with_odd_tokenizer,
}


def make_base(folder: Path, kind: Callable[[Path], None]) -> Path:
    """Return a copy of the demo's model, made odd."""
    shutil.copytree(DEMO, folder)
    kind(folder)
    return folder


def _change(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes, indent=2))
