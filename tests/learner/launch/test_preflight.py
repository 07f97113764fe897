"""What of a model's folder is in the way of an engine, said before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from config.explanations import ConfigError
from learner.launch.preflight import check_places
from tests.support.chain import make_run


def said(folder: Path, described: dict[str, Any], engine: dict[str, Any], **sections: Any) -> str:
    """Return what the check says of a model with this config.json; "" where nothing."""
    (folder / "config.json").write_text(json.dumps(described))
    usual = {
        "model": {"path": str(folder)},
        "data": {"train": {"type": "procedural"}, "max_prompt_tokens": 500},
        "sampling": {"max_tokens": 600},
        "generators": {"engine": engine},
        "learner": {"loggers": []},
    }
    run = make_run(folder / "runs", **usual | sections)
    try:
        check_places(run)
    except ConfigError as error:
        return str(error)
    return ""


SHORT = {"max_position_embeddings": 1024}
VLLM, HF = {"type": "vllm"}, {"type": "hf"}
HELD_OUT = {"type": "procedural", "split": "eval", "name": "h", "max_tokens": 900}
MORE = {"data": {"train": {"type": "procedural"}, "held_out": [HELD_OUT], "max_prompt_tokens": 200}}


@pytest.mark.parametrize(
    ("described", "engine", "sections", "says"),
    [
        (SHORT, VLLM, {}, "has 1024 positions (max_position_embeddings of its config.json), and the longest"),
        ({"max_position_embeddings": 1100}, VLLM, {}, ""),
        ({"text_config": SHORT}, VLLM, {}, "1024 positions"),
        ({"n_positions": 1024}, VLLM, {}, "1024 positions (n_positions"),
        ({"n_positions": 1024}, HF, {}, "1024 positions (n_positions"),
        (SHORT, HF, {}, ""),  # rotation goes on
        (SHORT, {"type": "fake"}, {}, ""),
        (SHORT | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, VLLM, {}, ""),
        (SHORT | {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}}, VLLM, {}, ""),
        (
            SHORT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
            VLLM,
            {},
            "1024 positions",
        ),
        (SHORT | {"model_max_length": 4096}, VLLM, {}, ""),
        ({"max_position_embeddings": 1024}, VLLM, MORE, "longest prompt and completion are 1100 tokens"),
        (SHORT, VLLM | {"max_model_len": 1024}, {}, ""),
        (SHORT, VLLM | {"max_model_len": 2048}, {}, "longest prompt and completion are 2048 tokens"),
        ({}, VLLM | {"max_model_len": 600}, {}, "sampling.max_tokens=600 leaves no room for a prompt"),
        ({}, VLLM | {"max_model_len": 601}, {}, ""),
        ({}, VLLM | {"max_model_len": 900}, MORE, "data.held_out.0.max_tokens=900 leaves no room"),
        ({"max_position_embeddings": "many"}, VLLM, {}, ""),
    ],
)
def test_a_sequence_longer_than_the_model_or_the_engine_takes_is_named(
    tmp_path: Path, described: dict[str, Any], engine: dict[str, Any], sections: dict[str, Any], says: str
) -> None:
    found = said(tmp_path, described, engine, **sections)
    assert says in found
    assert bool(says) == bool(found)
