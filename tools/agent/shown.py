"""Show the episodes of one row on a terminal: as `millrace journal show` shows a group, with more details.

In: the folder of a played run, or episodes of an external model with their scores. Out: text on standard output, and
the exit code: 1 where an episode has no score. A model's text goes through `tools.printable`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from broker.messages import Completion, Prompt, ScoredGroup
from config.run import Run
from learner.collect.results import open_results
from learner.groups.facts.episodes import EpisodeFacts, facts_of
from learner.reporting.conversations import OBSERVED_CHARS, cut_middle
from tasks.turns import POLICY, spoken, text_of
from tools.agent.outside_play import ScoredPlay
from tools.journal.show import block, show_group
from tools.printable import printable

GROUP = "0"  # the only one


def show_played(run: Run) -> int:
    """Show the episodes of a run of one row. Raises PipelineError."""
    show_group(run.folder, GROUP)
    (row,) = open_results(run.folder).rows()
    if row.group is None:
        sys.stdout.write(f"\nthe row was not played: {printable(row.died or 'nothing came back')}\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _sequences(row.group)))
    sys.stdout.write(
        f"\nagain   millrace journal show {run.name} --group {GROUP} --runs-dir {run.runs_dir}\n"
        f"remove  millrace rm {run.name} --yes --runs-dir {run.runs_dir}\n"
    )
    return 0 if row.group is not None and None not in row.scores else 1


def _sequences(group: ScoredGroup) -> Iterator[str]:
    """Yield a line for each sequence that would train."""
    opening = len(group.rollout.prompt.token_ids)
    for number, completion in enumerate(group.rollout.completions):
        yield f"\n  completion {number}: {_count(len(completion.segments), 'sequence')}"
        for place, segment in enumerate(completion.segments, 1):
            alone = replace(completion, segments=(segment,))
            yield f"    {place}: {_sequence(facts_of(alone), alone, len(segment.prompt_ids) or opening)}"


def _sequence(facts: EpisodeFacts, completion: Completion, opening: int) -> str:
    versions: Counter[int] = Counter()
    for span in completion.spans:
        versions[span.version] += span.count
    by_version = ", ".join(f"version {version}: {count}" for version, count in sorted(versions.items()))
    return (
        f"{opening} tokens of prompt, {_count(facts.turns, 'turn')} of {facts.sampled_tokens} tokens sampled "
        f"({by_version}), {facts.observed_tokens} observed"
    )


def show_outside(prompt: Prompt, episodes: Sequence[ScoredPlay]) -> int:
    """Show the episodes of an external model, and their scores."""
    head = (
        f"task {prompt.task}, row {prompt.row}, seed {prompt.seed}; played by {episodes[0].model}: an outside model "
        "gives no token ids, so there is no sequence, and nothing here could be trained"
    )
    lines = [head]
    for number, one in enumerate(episodes):
        lines += ["", *_outside(number, one)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if all(one.score is not None for one in episodes) else 1


def _outside(number: int, one: ScoredPlay) -> Iterator[str]:
    found = one.conversation
    score = "none" if one.score is None else f"{one.score:g}"
    yield f"  episode {number}: score {score} by {one.scorer or 'nobody'}: {printable(one.reason)}"
    remark = f": {found.remark}" if found.remark else ""
    beside = f", {one.auxiliary} beside the task" if one.auxiliary else ""
    yield block(
        "episode", f"{_count(one.calls, 'call')}{beside}; {one.tokens}; ended by {found.ended_by}{remark}"
    )
    if (reward := found.reward) is not None:
        yield block("reward", f"{reward.value:g} of {reward.low:g} to {reward.high:g}")
    for turn in one.opening:
        yield block(turn["role"], text_of(turn))
    for said in spoken(found.messages):
        text = "\n".join(said.parts)
        yield block(said.speaker, text if said.role == POLICY else cut_middle(text, OBSERVED_CHARS))
    if one.printed:
        yield block("printed", one.printed)


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
