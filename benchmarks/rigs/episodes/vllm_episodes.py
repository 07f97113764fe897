"""A run whose policy is a random model of 50 million parameters on vLLM, with groups of episodes and of single turns.

In: sizes. Out: the run, the file of its weights, and its groups. A turn ends by chance: as many ids of the vocabulary
end one as make it so long on average, since a turn that is cut ends its episode. Used by the benchmarks of episodes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.rigs.groups import demo_run, new_group, prompt
from benchmarks.rigs.random_model import large_model, save_folder, save_weights
from broker.keys import EPISODES, PROMPTS
from broker.messages import NO_IDS
from broker.protocol.run_owner import NewGroup
from config.run import Run

LETTERS = 256  # ids that are bytes; none of them ends a turn
IN_FLIGHT = 32  # episodes
LONGEST = 960  # tokens of a prompt and all that comes behind it
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)
AROUND = len("user\n\nassistant\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What is said in a group."""

    episodes: int  # of a group
    turns: int
    turn_tokens: int  # of a turn, on average
    prompt_tokens: int = 128


def vllm_run(folder: Path, talk: Talk, *, generators: int = 1, max_num_seqs: int = 8) -> tuple[Run, Path]:
    """Write a model into a folder, and return a run with it, and the file of its weights."""
    model = large_model(0)
    save_folder(model, folder / "model")
    size = int(model.config.vocab_size)
    stops = range(LETTERS, LETTERS + size // talk.turn_tokens)
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [*stops]}))
    (folder / "v0").mkdir()
    file = save_weights(model, folder / "v0" / "model.safetensors")
    environment = {
        "type": "custom",
        "import_path": "benchmarks.rigs.episodes.episode_rig:AtOnce",
        "options": {"turns": talk.turns},
        "max_turns": talk.turns + 1,
    }
    run = demo_run(
        folder,
        name="episodes",
        model={"path": str(folder / "model"), "dtype": "float32", "chat_template": TEMPLATE},
        data={"train": {"type": "procedural"}, "held_out": None, "max_prompt_tokens": 2 * talk.prompt_tokens},
        evaluation={"every": 0},
        sampling={"group_size": talk.episodes, "max_tokens": LONGEST - 2 * talk.prompt_tokens},
        generators={
            "count": generators,
            "groups_in_flight": None,
            "engine": {
                "type": "vllm",
                "kv_cache_mb": None if torch.cuda.is_available() else 1024,  # for all episodes in flight
                "max_num_seqs": max_num_seqs,
                "enforce_eager": True,
                "threads": 1,  # several would spin while they wait for each other, and that is no work
            },
        },
        agents={"episodes": IN_FLIGHT, "episodes_per_child": 8},
        learner={"groups_per_step": 64},
        scorers={"tasks": {"math": {"environment": environment}}},
    )
    return run, file


def group_of(group_id: str, run: Run, talk: Talk, *, turns: int) -> NewGroup:
    """Return a group: of episodes, or of as many completions of one turn as its episodes have turns."""
    said = np.random.default_rng(int(group_id)).integers(ord("a"), ord("z") + 1, talk.prompt_tokens - AROUND)
    is_played = turns > 1
    asked = prompt(
        group_id,
        n=talk.episodes if is_played else talk.episodes * talk.turns,
        max_tokens=run.sampling.max_tokens,
        token_ids=NO_IDS if is_played else np.resize(said, talk.prompt_tokens).astype(np.int32),
        info={"says": bytes(said.tolist()).decode()},
    )
    return new_group(asked, EPISODES if is_played else PROMPTS)
