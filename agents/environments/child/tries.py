"""Allow several tries at one row, with a verdict after each: programs by public tests, and answers of reasoning-gym.

In: the policy's message. Out: what is wrong with it, as a user message; the reward is 1 for a right answer, less for a
later try, and 0 for a wrong one. Needs Millrace's own interpreter, whose package `verdicts` has the scorers' rules. The
policy's text only runs in the sandbox, so errors here are caused by the sandbox or the row, and never by the policy:
the section declares that (`policy_can_break`).
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

from agents.environments.child.prepared import PreparedKind

Answer = Tuple[Optional[str], float, bool, bool, Dict[str, Any]]

PUT = {
    "answer": "Put your final answer between <answer> and </answer>.",
    "box": "Put your final answer in \\boxed{}.",
    "response": "Answer with the answer alone.",
}


class NoVerdict(Exception):
    """An answer to this row can't be judged here; the message says why."""


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the rules, and find working walls, once for all episodes. Raises their errors."""
    sys.path.append(section["source"])  # permanently: some of it is imported on first use
    from config.scorers import ScorersConfig
    from sandbox.choice import LazySandbox

    walls = LazySandbox(ScorersConfig(sandbox=section["walls"], sandbox_urls=section["sandbox_urls"]))
    walls.get()
    kind = {"code": Code, "reasoning_gym": Gym}[section["type"]]
    make = functools.partial(kind, section, walls)
    make().prepare()
    return PreparedKind(make, is_async=False)


class Tries:
    """The common part of both kinds: tries, their count, and their reward."""

    def __init__(self, section: Dict[str, Any], walls: Any) -> None:
        self._section, self._walls = section, walls
        self._tried = 0

    def prepare(self) -> None:
        """Test once, before any episode, everything that episodes need."""

    def step(self, action: str) -> Answer:
        """Judge a try. Raises the sandbox's errors, and NoVerdict."""
        is_right, told, remark = self.judged(action)
        self._tried += 1
        left = self._section["tries"] - self._tried
        if is_right:
            reward = self._section["discount"] ** (self._tried - 1)
            return None, reward, True, False, {"remark": remark}
        if not left:
            return None, 0.0, True, False, {"remark": remark}
        told = f"{told}\n\nYou have {left} more {'try' if left == 1 else 'tries'}."
        return told, 0.0, False, False, {"remark": remark}

    def judged(self, action: str) -> Tuple[bool, str, str]:
        """Return whether a try is right, the text for the policy, and the text for people."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the sandbox."""
        self._walls.close()


class Gym(Tries):
    """An entry of reasoning-gym: the row's, or one made by the library from the section's data set and the seed."""

    def __init__(self, section: Dict[str, Any], walls: Any) -> None:
        super().__init__(section, walls)
        from config.scorer_kinds import GymConfig
        from verdicts.gym.judging import Judging

        limits = {"memory_mb": section["program_memory_mb"], "deadline_s": section["program_deadline_s"]}
        self._judging = Judging(GymConfig(part=section["part"], **limits), walls)

    def prepare(self) -> None:
        """Copy the library for the sandbox; where problems are generated, judge one.

        Raises NoVerdict, and the library's errors.
        """
        from verdicts.gym.rows import installed_packages
        from verdicts.gym.runs import program

        if self._section["dataset"] is not None:
            self.reset({}, 0)
        with self._walls.get().prepare(program(installed_packages())):
            pass
        if self._section["dataset"] is not None:
            own = self.reference({}, 0)
            self.judged(own[0] if own else self._written("0"))

    def reset(self, row: Dict[str, Any], seed: int) -> Optional[str]:
        """Read the row's entry, with the row's prompt; or generate one, with its question as prompt."""
        from verdicts.gym.judging import JudgedRow
        from verdicts.gym.problems import verification_of
        from verdicts.gym.rows import installed_packages, row_of

        prompt = None
        if row.get("answer") is None:
            if self._section["dataset"] is None:
                raise NoVerdict(
                    "the row has no answer with an `entry`, and `environment.dataset` names no data set to make one of"
                )
            row = verification_of(self._section["dataset"], self._section["options"], seed)
            prompt = f"{row['answer']['entry']['question']}\n\n{self._asks}"
        read = row_of(row)
        packages = installed_packages()  # of all data sets: one copy for the episodes of every row
        self._judged = JudgedRow.of(replace(read, dataset=replace(read.dataset, packages=packages)))
        return prompt

    def reference(self, row: Dict[str, Any], seed: int) -> Optional[List[str]]:  # noqa: ARG002
        """Return the entry's own answer, in the policy's form."""
        from verdicts.gym.judging import gold_of

        own = gold_of(self._judged.row)
        return None if own is None else [self._written(own)]

    def judged(self, action: str) -> Tuple[bool, str, str]:
        """Judge an answer with the library, in the sandbox."""
        answer, problem = self._judging.answer_of(action)
        verdict = self._judging.judge(action, self._judged, most_s=self._section["program_deadline_s"])
        if verdict.value is None:
            raise NoVerdict(verdict.reason)
        if answer is None:
            return False, f"There is no answer to judge: {problem}. {self._asks}", verdict.reason
        if verdict.is_over_limit:
            return False, "Your answer takes too long to check, and counts as wrong.", verdict.reason
        return verdict.value == 1.0, "Your answer is not right.", verdict.reason

    @property
    def _asks(self) -> str:
        own: Optional[str] = self._section["instruction"]
        return PUT[self._section["part"]] if own is None else own

    def _written(self, answer: str) -> str:
        form = {"answer": "<answer>{}</answer>", "box": "\\boxed{{{}}}", "response": "{}"}
        return form[self._section["part"]].format(answer)


class Code(Tries):
    """A row of programs: each try runs only the public tests."""

    def __init__(self, section: Dict[str, Any], walls: Any) -> None:
        super().__init__(section, walls)
        from config.scorer_kinds import CodeConfig
        from verdicts.code.judging import Obstacles

        self._config = CodeConfig(
            deadline_s=section["program_deadline_s"],
            case_timeout_s=section["case_timeout_s"],
            memory_mb=section["program_memory_mb"],
            compatible=section["compatible"],
        )
        self._obstacles = Obstacles(walls)

    def reset(self, row: Dict[str, Any], seed: int) -> None:  # noqa: ARG002
        """Read the row's public tests; its prompt is the row's. Raises NoVerdict, and the reader's errors."""
        from verdicts.code.public import public_tests

        self._public = public_tests(row, self._section["public"])
        if lacking := self._obstacles.of(self._public.suite):
            raise NoVerdict(lacking)

    def judged(self, action: str) -> Tuple[bool, str, str]:
        """Run the program of a try, in the sandbox."""
        from verdicts.code.answer import program_of
        from verdicts.code.judging import Judging
        from verdicts.extract import Unanswered

        suite = self._public.suite
        try:
            source = program_of(action, suite.language)
        except Unanswered as error:
            asks = (
                f"Write the whole program in a closed code block that begins with ```{suite.language.value}."
            )
            return False, f"There is no program to run: {error}. {asks}", f"no answer: {error}"
        judging = Judging(
            self._walls.get(), self._config, is_all=False, most_s=self._section["program_deadline_s"]
        )
        tally = judging.judge(source, suite)
        value, _, reason = tally.score()
        if value < 1.0 and (lacking := self._obstacles.of_failure(source, suite, tally)):
            raise NoVerdict(lacking)
        return (
            value == 1.0,
            self._public.told(tally, self._section["shown_characters"]),
            f"public tests: {reason}",
        )
