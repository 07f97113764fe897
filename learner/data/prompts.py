"""This module gives prompts in the run's order: rows of a data set, or problems made on the spot.

In: `data.train` or `data.held_out`. Out: for each ordinal of the run one `Prompt`. Runs in the learner's feeder.
The order is a function of the ordinal and the run's seed, so going back to any position is setting a number.
A row without an answer is an error when the data are read; a prompt over the limit is counted and left out there, never
cut.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broker.errors import RunFailed
from broker.group_ids import ordinal_of
from broker.messages import Prompt, Split
from config.data import SourceConfig
from config.run import Run
from learner.data.dataset import Row, RowError, load_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a draw: which row it is."""

    epoch: int  # passes over the data before this one
    row: int  # index in the source, rows left out counted


class PromptSource:
    """The prompts of one source.

    Args:
        rows: (index in the source, row), those left out missing.
        fingerprint: of the data and of what was left out.
    """

    def __init__(
        self,
        run: Run,
        rows: list[tuple[int, Row]],
        fingerprint: str,
        tokenizer: PreTrainedTokenizerBase,
        *,
        shuffle: bool,
    ) -> None:
        self.run = run
        self.fingerprint = fingerprint
        self._rows = rows
        self._tokenizer = tokenizer
        self._shuffle = shuffle
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.arange(0))

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, draw: int) -> tuple[Place, Row]:
        """Return the place and the row of the `draw`-th draw in the run's order."""
        epoch, offset = divmod(draw, len(self._rows))
        if self._order[0] != epoch:
            size = len(self._rows)
            random = np.random.default_rng([self.run.seed, epoch])
            self._order = (epoch, random.permutation(size) if self._shuffle else np.arange(size))
        index, row = self._rows[int(self._order[1][offset])]
        return Place(epoch, index), row

    def training_prompt(self, group_id: str, *, first_row: int) -> Prompt:
        """Return a training group's prompt, the draw that its ordinal names. The floor is set when the group is issued.

        Args:
            first_row: the draw that ordinal 0 of this run is.
        """
        place, content = self.place(first_row + ordinal_of(group_id))
        sampling = self.run.sampling
        return self._prompt(
            group_id, Split.TRAIN, place, content, n=sampling.group_size, temperature=sampling.temperature
        )

    def evaluation_prompt(self, version: int, index: int) -> Prompt:
        """Return held-out prompt `index` of the round for `version`."""
        place, row = self.place(index)
        evaluation = self.run.evaluation
        return self._prompt(
            f"eval-{version}-{index}",
            Split.EVAL,
            place,
            row,
            n=evaluation.samples,
            temperature=evaluation.temperature,
        )

    def _prompt(
        self, group_id: str, split: Split, place: Place, row: Row, *, n: int, temperature: float
    ) -> Prompt:
        seed = int.from_bytes(
            hashlib.blake2b(f"{self.run.seed} {group_id}".encode(), digest_size=4).digest(), "little"
        )
        return Prompt(
            group_id=group_id,
            split=split,
            task=row.task,
            n=n,
            floor=0,
            issued_at=time.time(),
            epoch=place.epoch,
            row=place.row,
            fingerprint=self.fingerprint,
            seed=seed,
            temperature=temperature,
            max_tokens=self.run.sampling.max_tokens,
            messages=row.messages,
            token_ids=np.asarray(tokenize(self._tokenizer, row.messages), dtype=np.int32),
            verification_info=row.verification_info,
            data_source=row.data_source,
        )


def load_tokenizer(run: Run) -> PreTrainedTokenizerBase:
    """Load the policy's tokenizer with its chat template. Raises RunFailed if loading fails or there is no template."""
    from transformers import AutoTokenizer

    model = run.model
    token = model.hf_token.get_secret_value() if model.hf_token else None
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            model.path, revision=model.revision, token=token, trust_remote_code=model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"model.path={model.path}: its tokenizer can't be loaded: {error}") from error
    if not tokenizer.chat_template:
        raise RunFailed(f"model.path={model.path}: its tokenizer has no chat template")
    return tokenizer


def check_reference(run: Run, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the reference model of the KL term has the policy's tokens.

    Raises:
        RunFailed: the reference's tokenizer can't be loaded, or gives the ids to other tokens.
    """
    from transformers import AutoTokenizer

    kl, model = run.learner.objective.kl, run.model
    if not kl.coef or kl.reference is None:
        return
    token = model.hf_token.get_secret_value() if model.hf_token else None
    key = f"learner.objective.kl.reference={kl.reference}"
    try:
        other: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            kl.reference, token=token, trust_remote_code=model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"{key}: its tokenizer can't be loaded: {error}") from error
    own, others = tokenizer.get_vocab(), other.get_vocab()
    if differing := sorted(word for word in own.keys() | others.keys() if own.get(word) != others.get(word)):
        word = differing[0]
        raise RunFailed(
            f"{key}: {len(differing)} of its tokens are not the policy's (as {word!r}: {others.get(word)}, and in "
            f"{model.path} {own.get(word)}): the divergence would be between other texts"
        )


def tokenize(tokenizer: PreTrainedTokenizerBase, messages: tuple[Mapping[str, str], ...]) -> list[int]:
    """Return the chat's token ids, up to where the model's turn begins."""
    ids: Any = tokenizer.apply_chat_template(
        [dict(turn) for turn in messages], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return list(ids)


def open_source(
    run: Run, source: SourceConfig, tokenizer: PreTrainedTokenizerBase, *, shuffle: bool
) -> PromptSource:
    """Read `source`, leave out what is too long, and say how much that was.

    Raises:
        RowError: a row without an answer, of an unknown task, or without a prompt; no row left.
    """
    rows, fingerprint = load_rows(run, source)
    limit = run.data.max_prompt_tokens
    kept: list[tuple[int, Row]] = []
    longest = 0
    for index, row in enumerate(rows):
        length = len(tokenize(tokenizer, row.messages))
        longest = max(longest, length)
        if length <= limit:
            kept.append((index, row))
    left_out = len(rows) - len(kept)
    if left_out:
        log.warning(
            "prompts_left_out count=%d of=%d longest_tokens=%d data.max_prompt_tokens=%d",
            left_out,
            len(rows),
            longest,
            limit,
        )
    if not kept:
        raise RowError(
            f"{source_name(source)}: no prompt of {len(rows)} is within data.max_prompt_tokens={limit}; "
            f"the longest has {longest}"
        )
    digest = hashlib.blake2b(json.dumps([fingerprint, limit, len(kept)]).encode(), digest_size=8).hexdigest()
    return PromptSource(run, kept, digest, tokenizer, shuffle=shuffle)


def source_name(source: SourceConfig) -> str:
    """Return the source's name for people."""
    return source.path if source.type == "dataset" else f"procedural {source.problem} {source.split}"
