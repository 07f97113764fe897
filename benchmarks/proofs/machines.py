"""The state machines that `make prove-protocol` runs: their tests, what they do, and the rules that are taken out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StateMachine:
    """One state machine of tests/protocol.

    Attributes:
        title: of its tables.
        tests: the file that runs it.
        actions: on each version of Redis, unless told otherwise.
        search: actions of one of several seeds in which a missing rule has to show.
        rules: those that are taken out, by the names that its tests have for them.
        acts: what it counts where it took effect, each of which has to have happened on each Redis.
    """

    title: str
    tests: str
    actions: int
    search: int
    rules: tuple[str, ...]
    acts: tuple[str, ...]


GROUPS = StateMachine(
    title="Groups",
    tests="tests/protocol/test_random_runs.py",
    actions=200_000,
    search=20_000,
    rules=(
        "announce before retire",
        "trained groups keep their slots",
        "the position compare",
        "the floor inside issue",
        "rule 3",
        "the fence",
        "the ledger asked at every read",
    ),
    acts=(
        "entries leased",
        "leases renewed",
        "results handed over",
        "hand-overs without a reply",
        "handed over late or twice",
        "destinations full",
        "destinations of a wrong type",
        "given up",
        "workers killed",
        "buried by hand",
        "letters retried",
        "entries deleted",
        "`where` deleted",
        "memory full",
        "redis set back",
        "redis emptied",
        "learners killed",
        "power cuts",
        "second learners",
        "older learners woken",
        "learners with other settings",
        "replies lost",
        "groups trained",
        "steps trained",
    ),
)
EPISODES = StateMachine(
    title="Episodes",
    tests="tests/protocol/test_episodes_machine.py",
    actions=100_000,
    search=6_000,
    rules=(
        "an open counts once",
        "a call is of the newest attempt",
        "a record is found",
        "a call is out once",
        "an ended episode asks nothing",
        "a failure is its own attempt's",
        "full memory refuses no call",
        "a call that nobody asks is dropped",
        "a generator's own stream expires",
        "another end is refused",
        "a held-out group needs no slot",
        "an answer is asked",
        "an answer takes its call",
        "a hand-over is of the newest attempt",
        "a hand-over forgets",
        "retirement forgets",
        "forgetting takes the calls",
    ),
    acts=(
        "groups issued",
        "groups retired",
        "evaluation groups issued",
        "buried by the collector",
        "retries issued",
        "entries deleted",
        "`where` deleted",
        "turns deleted",
        "groups put back",
        "memory full",
        "redis set back",
        "attempts opened",
        "groups not opened",
        "older attempts refused",
        "calls asked",
        "equal calls asked side by side",
        "turns used",
        "failures read",
        "episodes ended",
        "plays undone",
        "handed over to rollouts",
        "handed over to dead",
        "workers killed",
        "calls leased",
        "calls begun",
        "calls not begun",
        "leases of calls stolen",
        "turns sampled",
        "calls refused",
        "calls thrown away",
        "generators killed",
        "own streams expired",
    ),
)
MACHINES = (GROUPS, EPISODES)
