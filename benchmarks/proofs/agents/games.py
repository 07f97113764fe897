"""Games of three libraries: gymnasium, gem and textarena."""

from __future__ import annotations

import re

from benchmarks.proofs.agents.stage import KindStage


def gymnasium(stage: KindStage) -> None:
    """Cross a frozen lake, and fall into it."""
    lake = {
        "type": "gymnasium",
        "id": "FrozenLake-v1",
        "options": {"render_mode": "ansi", "is_slippery": False},
        "actions": ["left", "down", "right", "up"],
    }
    with stage.plays(lake) as player:
        right = player.play(*["down", "down", "right", "right", "down", "right"])
        fallen = player.play("right", "down", "up")
        odd = player.play("I wait.", "not left but Down")
    with stage.plays({"type": "gymnasium", "id": "CliffWalking-v1", "reward_range": [-300, 0]}) as player:
        cliff = player.play("1")
    with stage.plays({**lake, "id": "FrozenLak-v1"}) as player:
        unknown = player.play("left")
    stage.holds(
        "a lake is crossed", right.rewards == [0, 0, 0, 0, 0, 1], right.is_over, len(right.steps) == 6
    )
    stage.holds("a hole ends it without a reward", fallen.rewards == [0, 0], fallen.is_over)
    stage.holds("the place is read", "[S]FFF" in right.opening, "[F]HFH" in right.said[0])
    stage.holds(
        "a turn without an action is told so",
        odd.said[0].startswith("That names no action."),
        "[F]HFH" in odd.said[1],
    )
    stage.holds("actions have numbers where they have no names", cliff.rewards == [-100.0])
    stage.holds("a game that there is not is named", unknown.failed("start", "FrozenLak", is_policys=False))


def gem(stage: KindStage) -> None:
    """Guess a number by halving."""
    low, high, said = 1, 10, 0

    def halve(read: str) -> str:
        nonlocal low, high, said
        if said and "higher" in read:
            low = said + 1
        elif said and "lower" in read:
            high = said - 1
        said = (low + high) // 2
        return f"\\boxed{{{said}}}"

    section = {"type": "gem", "id": "game:GuessTheNumber-v0-easy"}
    with stage.plays(section) as player:
        right = player.play_by(halve, most=6, seed=3)
        first, again = player.play("\\boxed{5}", seed=3), player.play("\\boxed{5}", seed=3)
        odd = player.play("five, I think", seed=3)
    stage.holds("the number is found, and paid", right.rewards[-1] == 1.0, right.is_over)
    stage.holds(
        "the same seed asks and answers the same", first.opening == again.opening, first.said == again.said
    )
    stage.holds("what is no guess is answered, and not paid", odd.failure is None, (odd.rewards[0] or 0) <= 0)


def textarena(stage: KindStage) -> None:
    """Move a tower, and try what the rules forbid."""
    with stage.plays({"type": "textarena", "id": "TowerOfHanoi-v0"}) as player:
        right = player.play(*re.findall(r"\[.*?\]", "[A C] [A B] [C B] [A C] [B A] [B C] [A C]"))
        wrong = player.play("[C A]", "[C A]", "[C A]", "[C A]", "[C A]")
    stage.holds("the tower is moved in seven turns", right.is_over, len(right.steps) == 7)
    stage.holds("its reward comes at the end", right.rewards == [None] * 6 + [1.0])
    stage.holds(
        "each turn reads what is new", right.said[0].startswith("[GAME] [A C]"), "[A B]" not in right.said[0]
    )
    stage.holds(
        "moves that the rules forbid are told, and end without the full reward",
        wrong.is_over,
        (wrong.rewards[-1] or 0) < 1,
    )
