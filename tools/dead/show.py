"""Dead letters for people: the table of `millrace dead list`, and all of one letter for `millrace dead show`.

In: letters. Out: text without a control character in it: what a model wrote is among it, and the terminal is the
operator's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence

from broker import codec
from broker.errors import BadMessage
from broker.keys import PROMPTS, ROLLOUTS, SCORED
from broker.messages import Prompt, SampledGroup, ScoredGroup
from tools.dead.letters import Letter

HEADINGS = ("entry", "group", "age", "stage", "attempts", "state", "reason")
REASON_WIDTH = 100
TEXT_CHARS = 2000  # of a completion or a turn
OWN_FIELDS = {"v", "group", "stage", "reason", "attempts", "floor", "traceback", "payload"}


def as_table(letters: Sequence[Letter], now: float) -> str:
    """A line a letter."""
    rows = [
        HEADINGS,
        *(
            (
                letter.entry,
                letter.group,
                age(now - letter.at),
                letter.stage,
                str(letter.attempts),
                letter.state,
                _cut(" ".join(letter.reason.split()), REASON_WIDTH),
            )
            for letter in letters
        ),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "".join(
        printable("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        + "\n"
        for row in rows
    )


def as_json(letter: Letter) -> dict[str, object]:
    """What `list --json` says of a letter."""
    return {
        "entry": letter.entry,
        "group": letter.group,
        "stage": letter.stage,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "at": letter.at,
        "bytes": letter.bytes,
        "state": letter.state,
    }


def as_text(letter: Letter, now: float) -> str:
    """Everything that is known of one letter, which must have its payload."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter.at))
    lines = [
        f"letter {letter.entry}",
        f"  group     {letter.group}",
        f"  at        {when}, {age(now - letter.at)} ago",
        f"  stage     {letter.stage}",
        f"  attempts  {letter.attempts}",
        f"  state     {letter.state}",
        f"  reason    {letter.reason}",
    ]
    for field, value in letter.raw.items():
        if (name := field.decode(errors="replace")) not in OWN_FIELDS:
            lines.append(f"  {name:<9} {value.decode(errors='replace')}")
    lines += _content(letter)
    if letter.traceback:
        lines += ["  the end of what its worker said", *_indented(letter.traceback.rstrip())]
    return printable("\n".join(lines)) + "\n"


def age(seconds: float) -> str:
    """A duration in one unit: 45 s, 12 min, 3.5 h, 2.0 d."""
    for size, unit, digits in ((86400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def printable(text: str) -> str:
    """The text with its control characters spelled out, but for line ends and tabs."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def _content(letter: Letter) -> Iterator[str]:
    """The prompt, and what was made of it, as far as the payload can be read."""
    try:
        if letter.stage == PROMPTS:
            yield from _prompt(codec.decode_prompt(letter.raw))
        elif letter.stage == ROLLOUTS:
            yield from _rollout(codec.decode_rollout(letter.raw))
        elif letter.stage == SCORED:
            yield from _scored(codec.decode_scored(letter.raw))
        else:
            yield f"  payload   {letter.bytes} bytes of a stage that this program does not know"
    except BadMessage as error:
        yield f"  payload   {letter.bytes} bytes that can't be read: {error}"


def _prompt(prompt: Prompt) -> Iterator[str]:
    yield (
        f"  prompt    task {prompt.task}, row {prompt.row} of epoch {prompt.epoch}, {len(prompt.token_ids)} tokens, "
        f"{prompt.n} completions of up to {prompt.max_tokens} wanted, floor {prompt.floor}"
    )
    for turn in prompt.messages:
        yield from _indented(f"{turn.get('role', '?')}: {_cut(str(turn.get('content', '')), TEXT_CHARS)}")
    yield f"  answer    {_cut(json.dumps(prompt.verification_info, ensure_ascii=False), TEXT_CHARS)}"


def _rollout(rollout: SampledGroup, verdicts: Iterable[str] = ()) -> Iterator[str]:
    yield from _prompt(rollout.prompt)
    yield (
        f"  sampled   by {rollout.generator} in {rollout.seconds:.1f} s, versions {rollout.min_version} to "
        f"{rollout.max_version}, {rollout.num_tokens} tokens"
    )
    said = list(verdicts) or [""] * len(rollout.completions)
    for index, (completion, verdict) in enumerate(zip(rollout.completions, said, strict=True)):
        yield f"  completion {index}: {len(completion.token_ids)} tokens, {completion.finish_reason}{verdict}"
        yield from _indented(_cut(completion.text, TEXT_CHARS))


def _scored(group: ScoredGroup) -> Iterator[str]:
    yield from _rollout(
        group.rollout,
        [
            f"; {score.scorer}: {'unscorable' if score.value is None else score.value}, {score.reason}"
            for score in group.scores
        ],
    )


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}" for line in text.splitlines())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length} characters more)"
