"""Rules of verl's section `data`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from config.places import is_there
from tools.imports.hardware import is_async, updates
from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    KeyVerdict,
    flag,
    mapped,
    nothing,
    nothing_here,
    of_verl,
    only,
    part_of,
    refused,
    settings,
    taken,
    whole,
)
from tools.imports.tables.multi_turn import data_tools
from tools.imports.theirs import Theirs, texts

TRAIN, HELD_OUT, EVERY = "data.train_files", "data.val_files", "trainer.test_freq"
OLD_EVERY: Final = "rollout.test_freq"
COLUMN: Final = "reward_api.verification_info_column"
ROLLOUT_MODE: Final = "actor_rollout_ref.rollout.mode"
VAL: Final = "actor_rollout_ref.rollout.val_kwargs"


def source(theirs: Theirs, path: str, which: str, split: str) -> dict[str, Any]:
    """Return our section for one of their files; for a hub name or a folder with II-VERL's split."""
    is_file = path.endswith((".parquet", ".jsonl", ".json"))
    section: dict[str, Any] = {
        "type": "dataset",
        "path": path,
        "split": "train" if is_file else theirs.text(f"data.{which}_split") or split,
        "prompt_column": theirs.text("data.prompt_key") or "prompt",
    }
    if theirs.has(COLUMN):
        section["verification_column"] = theirs.text(COLUMN)
    most = theirs.get(f"data.{which}_max_samples")
    if most is not None and whole(most) > 0:
        section["limit"] = whole(most)
    return section


def every(theirs: Theirs) -> int:
    """Return the steps between two evaluations; none for 0 and below, null and false.

    An asynchronous run counts versions of the weights, of several steps each.
    """
    key = OLD_EVERY if theirs.get(OLD_EVERY) is not None else EVERY
    found = 0 if theirs.get(key) in (None, False, "False", "false") else theirs.whole(key)
    return found * updates(theirs)


def is_greedy(theirs: Theirs) -> bool:
    """Return whether held-out answers are greedy; verl's agent loops, its mode `async`, ignore do_sample."""
    if theirs.get(ROLLOUT_MODE) == "async":
        return not theirs.number(f"{VAL}.temperature")
    return not theirs.flag(f"{VAL}.do_sample") or not theirs.number(f"{VAL}.temperature")


def _train(value: Any, theirs: Theirs) -> KeyTranslation:
    files = [file for file in texts(value) if file.strip()] if value is not None else []
    if not files:
        return refused("no file: name one")
    sources = [source(theirs, file, "train", "train") for file in files]
    return settings(data__train=sources if len(files) > 1 else sources[0])


def _held_out(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None:
        return nothing_here("null: nothing is held out")
    if every(theirs) <= 0:
        return nothing_here(f"{EVERY} is {theirs.get(EVERY)}: there is no evaluation that would read it")
    files = [file for file in texts(value) if file.strip()]
    if not files:
        return refused("no file: name one, or set trainer.test_freq to -1")
    sources = [source(theirs, file, "val", "test") for file in files]
    if len(files) == 1:
        return settings(data__held_out=sources[0])
    names = _names(files)
    return settings(data__held_out=[{**one, "name": name} for one, name in zip(sources, names, strict=True)])


def _names(files: list[str]) -> list[str]:
    """Return a name for each held-out set: its file's, prefixed with its folder's where two are equal."""
    stems = [Path(file).stem for file in files]
    names: list[str] = []
    for file, stem in zip(files, stems, strict=True):
        above = Path(file).parent.name
        whole_name = f"{above}-{stem}" if stems.count(stem) > 1 and above else stem
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", whole_name).strip("-_.")[:50] or "held-out"
        names.append(name if name not in names else f"{name}-{len(names)}")
    return names


def _filter(value: Any, _theirs: Theirs) -> KeyTranslation:
    if flag(value):
        return nothing_here("longer prompts are always left out, and counted")
    return settings("longer prompts are left out and counted here; verl stops at the first, or cuts it")


def _generated(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is None or is_async(theirs) or whole(value) == theirs.whole("data.train_batch_size"):
        return nothing_here(
            "generators sample on while the learner trains; learner.groups_in_flight bounds them"
        )
    return settings(
        "groups on their way at once, not a batch that is waited for",
        learner__groups_in_flight=max(whole(value), theirs.whole("data.train_batch_size")),
    )


def _seed(value: Any, _theirs: Theirs) -> KeyTranslation:
    return nothing_here("null: the seed is 0") if value is None else settings(seed=whole(value))


# Names of models that read images; `data.image_key` alone proves nothing, since verl's own base has it.
_OF_IMAGES: Final = re.compile(
    r"(?:^|[-_/.\d])(?:vl|vlm|vision|omni|llava|internvl\d*|pixtral|idefics\d*|paligemma\d*|smolvlm\d*)(?:$|[-_/.\d])|"
    r"glm-4(?:\.\d+)?v|minicpm-v|minicpm-o|qvq|gemma-3-(?:4|12|27)b|kimi-k2\.5|qwen3\.5",
    re.IGNORECASE,
)


def reads_images(theirs: Theirs) -> bool:
    """Return whether the model reads images, by its name or its config.json."""
    name = theirs.text("actor_rollout_ref.model.path")
    config = Path(name).expanduser() / "config.json"
    try:
        if is_there(config) and '"vision_config"' in config.read_text(encoding="utf-8"):
            return True
    except (OSError, UnicodeDecodeError):
        pass
    return _OF_IMAGES.search("/".join(name.rstrip("/").split("/")[-2:])) is not None


def _images(value: Any, theirs: Theirs) -> KeyTranslation:
    if value is not None and reads_images(theirs):
        return refused(
            f"{theirs.text('actor_rollout_ref.model.path')} reads images: models of text are trained here"
        )
    return nothing_here("prompts are text; a row's images and videos are not read")


RULES: Final[tuple[KeyRule, ...]] = (
    mapped(
        TRAIN, "data.train", "a file, folder or hub name", _train, default="~/data/rlhf/gsm8k/train.parquet"
    ),
    mapped(
        HELD_OUT,
        "data.held_out",
        "the same, where trainer.test_freq is above 0",
        _held_out,
        default="~/data/rlhf/gsm8k/test.parquet",
    ),
    part_of("data.train_max_samples", TRAIN, "data.train.limit", "below 0: all"),
    part_of("data.val_max_samples", HELD_OUT, "data.held_out.limit", "below 0: all"),
    part_of("data.train_split", TRAIN, "data.train.split", "II-VERL's; a single file has any name"),
    part_of("data.val_split", HELD_OUT, "data.held_out.split", "II-VERL's; a single file has any name"),
    part_of("data.prompt_key", TRAIN, "data.train.prompt_column", "as it is", default="prompt"),
    taken("data.max_prompt_length", "data.max_prompt_tokens", whole, default=512),
    taken("data.max_response_length", "sampling.max_tokens", whole, default=512),
    part_of(
        "data.train_batch_size",
        "actor_rollout_ref.rollout.n",
        "learner.groups_per_step",
        "prompts of a step, both here and there",
        default=1024,
    ),
    mapped(
        "data.gen_batch_size",
        "learner.groups_in_flight",
        "where it differs from train_batch_size",
        _generated,
    ),
    nothing(
        "data.val_batch_size",
        "a round asks for all its prompts at once, and the generators take them as they can",
    ),
    mapped("data.filter_overlong_prompts", "", "longer prompts are left out and counted, on or off", _filter),
    nothing("data.filter_overlong_prompts_workers", "prompts are counted as the learner reads them"),
    nothing("data.truncation", "a prompt is never cut: a longer one is left out and counted"),
    taken("data.shuffle", "data.shuffle", flag),
    mapped("data.seed", "seed", "as it is", _seed),
    only(
        "data.reward_fn_key",
        "the column `data_source` says how a row is scored",
        "data_source",
        else_="rename the column to data_source",
    ),
    only(
        "data.tokenizer",
        "null: the model's own",
        else_="the tokenizer is the one in the model's folder: put it there",
    ),
    mapped("data.image_key", "", "for models of text; refused with a model of images", _images),
    mapped("data.video_key", "", "for models of text; refused with a model of images", _images),
    nothing("data.audio_key", "prompts are text; a row's sounds are not read"),
    nothing("data.mm_processor_kwargs", "prompts are text"),
    *(
        KeyRule(
            key=key,
            verdict=KeyVerdict.NOTHING,
            about="the tools are those of multi_turn; refused where that is off",
            convert=data_tools,
        )
        for key in ("data.tool_config_path", "data.function_tool_path")
    ),
    nothing("data.image_patch_size", "prompts are text"),
    nothing("data.return_*", "what a scorer needs of a row always travels with it"),
    nothing("data.dataloader_num_workers", "the learner reads the rows itself"),
    nothing("data.validation_shuffle", "a round's prompts follow from the run's seed"),
    nothing("data.use_shm", "data are read once, at the start"),
    nothing("data.trust_remote_code", "data come without code"),
    of_verl("data._target_"),
    nothing("data.custom_cls.name", "of custom_cls.path"),
    only(
        "data.custom_cls.*",
        "null: no class of one's own",
        {},
        else_="write the rows into a file: no class reads them here",
    ),
    only(
        "data.sampler.*", "null: the order is the seed's", {}, else_="the order of prompts is the seed's here"
    ),
    only(
        "data.datagen.*",
        "null: no rows are made",
        {},
        else_="rows are not made while a run goes on: write them into a file",
    ),
    only(
        "data.apply_chat_template_kwargs",
        "empty: the template as it is",
        {},
        else_="write them into the template, model.chat_template: no arguments are handed to it here",
    ),
    only(
        "data.apply_chat_template_kwargs.*",
        "empty: the template as it is",
        else_="write them into the template, model.chat_template: no arguments are handed to it here",
    ),
)
