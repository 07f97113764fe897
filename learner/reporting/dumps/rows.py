"""Convert the answers of a step or a held-out round to the rows that verl and II-VERL write.

In: scored groups, and a decoder of token ids. Out: rows. The texts are decoded from the ids, as theirs are, so a
replayed step gives the same rows. Pure; called by `learner.reporting.dumps.writer` in its thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.messages import Completion, Prompt, ScoredGroup
from learner.groups.facts.episodes import is_episode, num_turns
from tasks.stored import ground_truth

Row = dict[str, Any]
# Decodes lists of token ids, with special tokens or without.
Decode = Callable[[Sequence[Sequence[int]], bool], Sequence[str]]


def verl_rows(step: int, groups: Sequence[ScoredGroup], decode: Decode) -> Iterator[Row]:
    """Yield a row for each completion as verl's trainer dumps it: input and output without special tokens.

    After verl's five keys come `groundtruth`, the older name of `gts`, and keys that its reward functions would have
    added: here the score's facts, the columns that travel with the row, and the score's components. Every row of a file
    has the same keys: in a file with episodes `messages`, the whole conversation, and verl's `num_turns`, both null for
    an answer of one turn.

    Args:
        step: verl's `global_steps`; for a held-out round its version.
        groups: in the order of the batch.
        decode: of the policy's tokenizer.
    """
    columns, components = _names(groups)
    has_episodes = _has_episodes(groups)
    for group in groups:
        prompt, completions = group.rollout.prompt, group.rollout.completions
        truth = ground_truth(prompt.verification_info)
        asked = decode([prompt.token_ids.tolist()], False)[0]
        spoken = [_text(completion, (), decode, is_special=False) for completion in completions]
        for index, (completion, score) in enumerate(zip(completions, group.scores, strict=True)):
            row = {
                "input": asked,
                "output": spoken[index],
                "gts": truth,
                "score": group.rewards[index],
                "step": step,
                "groundtruth": truth,
                "acc": score.value,
                "data_source": prompt.data_source or None,
                "group": group.group_id,
                "completion": index,
                "finish_reason": str(completion.finish_reason),
                "status": str(score.status),
                "reason": score.reason,
                **(_conversation(prompt, completion) if has_episodes else {}),
            }
            further = {name: prompt.columns.get(name) for name in columns}
            further |= {name: score.components.get(name) for name in components}
            yield row | {name: value for name, value in further.items() if name not in row}


def ii_verl_rows(step: int, groups: Sequence[ScoredGroup], decode: Decode) -> Iterator[Row]:
    """Yield a row for each completion as II-VERL's reward manager dumps it, then the index of the answer.

    Episodes have the same keys as in `verl_rows`, the conversation as JSON text.

    Args: as in `verl_rows`.
    """
    columns, _ = _names(groups)
    has_episodes = _has_episodes(groups)
    has_source = any(group.rollout.prompt.data_source for group in groups)
    for group in groups:
        prompt, completions = group.rollout.prompt, group.rollout.completions
        asked = prompt.token_ids.tolist()
        whole = [_text(completion, asked, decode, is_special=True) for completion in completions]
        info = json.dumps(dict(prompt.verification_info), ensure_ascii=False)
        for index, (completion, score) in enumerate(zip(completions, group.scores, strict=True)):
            said = _conversation(prompt, completion) if has_episodes else {}
            if said.get("messages"):
                said["messages"] = json.dumps(said["messages"], ensure_ascii=False)
            row = {
                "llm_output": whole[index],
                "verification_info": info,
                "score": group.rewards[index],
                **({"id": prompt.columns.get("id")} if "id" in columns else {}),
                **({"data_source": prompt.data_source or None} if has_source else {}),
                "step": step,
                "group": group.group_id,
                "completion": index,
                "status": str(score.status),
                "reason": score.reason,
                **said,
            }
            yield row | {name: prompt.columns.get(name) for name in columns if name not in row}


def _text(completion: Completion, asked: Sequence[int], decode: Decode, *, is_special: bool) -> str:
    """Return the text of a completion's segments, each after its prompt where the group's prompt is given."""
    ids = [
        [*((segment.prompt_ids.tolist() or asked) if asked else ()), *segment.token_ids.tolist()]
        for segment in completion.segments
    ]
    return "\n\n".join(decode(ids, is_special))


def _has_episodes(groups: Sequence[ScoredGroup]) -> bool:
    return any(is_episode(completion) for group in groups for completion in group.rollout.completions)


def _conversation(prompt: Prompt, completion: Completion) -> Row:
    """Return the additional keys of an episode's row, null for an answer of one turn."""
    if not is_episode(completion):
        return {"messages": None, "num_turns": None}
    turns = [dict(turn) for turn in (*prompt.messages, *completion.messages)]
    return {"messages": turns, "num_turns": num_turns(completion)}


def _names(groups: Sequence[ScoredGroup]) -> tuple[list[str], list[str]]:
    """Return the names of all columns and of all components, in order of appearance."""
    columns = [name for group in groups for name in group.rollout.prompt.columns]
    components = [name for group in groups for score in group.scores for name in score.components]
    return list(dict.fromkeys(columns)), list(dict.fromkeys(components))
