"""What a learner takes for its next step, asked without waiting for more groups."""

from __future__ import annotations

from tests.support.chain import Chain


def stop_at_the_first_wait(chain: Chain) -> list[str]:
    """Returns where it will say what it waits for."""

    def say(state: str) -> None:
        chain.said.append(state)
        chain.stop.set()

    chain.selection._set_state = say
    return chain.said


def take(chain: Chain, version: int) -> list[str] | None:
    groups = chain.selection.take(version)
    return None if groups is None else [group.group_id for group in groups]
