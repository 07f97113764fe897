"""Groups laid out by hand in real streams and a real journal, for the tests of the audit and of dead letters."""

from __future__ import annotations

from broker.protocol.streams import dead_letter_entry
from learner.journal.ledger import DEAD, DROPPED, GroupOutcome
from learner.journal.writer import Journal
from tests.support.chain import Chain, make_prompt, make_scored
from tools.audit.command import audit
from tools.audit.sums import Audit


def train(journal: Journal, step: int, *ids: str) -> None:
    groups = [make_scored(make_prompt(group_id), [1.0, 0.0]) for group_id in ids]
    journal.append(step, groups, [[0.5, -0.5]] * len(groups))


def lay_out(chain: Chain) -> None:
    """Nine groups: two trained, one dropped, one dead, one dead-lettered and not recorded, and four on their way."""
    chain.issue(9)
    train(chain.journal, 0, "0", "1")
    chain.run_owner.retire(["0", "1"])
    chain.journal.end(
        {"2": GroupOutcome(DROPPED, "zero_variance: all 0", tokens=8), "3": GroupOutcome(DEAD, "deadline")}
    )
    chain.run_owner.retire(["2"])
    dead_letter_entry(chain.link, chain.keys, chain.entry("3"), reason="deadline")
    chain.run_owner.retire(["3"])
    dead_letter_entry(chain.link, chain.keys, chain.entry("4"), reason="no answer")
    chain.sample("6")
    chain.score("7")
    chain.score("8")


def look(chain: Chain, *, is_quick: bool = False) -> Audit:
    return audit(chain.link, chain.keys, chain.run.folder / "journal", is_quick=is_quick)
