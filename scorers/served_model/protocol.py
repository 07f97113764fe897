"""A protocol is one way to ask a served model about answers: how a row is read, what is asked, what a reply means.

In: rows, the texts of completions, and replies. Out: a `ModelQuestion` for the model, and the `Ruling` on its reply.
The scorer that asks (`scorers.served_model.scorer`) is one for all protocols: it owns the calls, the cache, the
prefetch, the rule's child, and what a failure becomes. `scorers.judge`, `scorers.rubric` and `scorers.tinyv` have a
protocol each; CONTRIBUTING says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from scorers.scorer import Conversation
    from scorers.served_model.client import Reply
    from scorers.served_model.rule import MathRule

CUT_OFF: Final = "length"  # the finish reason of a reply that ran out of tokens
ENDED_BY: Final = "by max_tokens or the end of its context"  # which of the two, a server does not say

PLAIN_ANSWER: Final = "It is one."  # in which no server finds anything to refuse

# What a protocol reads out of a row: a frozen dataclass, since equal rows must have one `repr`.
Row = TypeVar("Row")
Row_contra = TypeVar("Row_contra", contravariant=True)  # the same, of a protocol that reads none itself
Case = TypeVar("Case")  # what a protocol asks about, and needs again to read the reply


@dataclass(frozen=True, slots=True)
class Ruling:
    """A ruling says what an answer is worth. A ruling without a value leaves the answer unscorable."""

    value: float | None  # from 0 to 1; None: unscorable
    reason: str  # for people
    components: Mapping[str, float] = field(default_factory=dict)  # of the score


@dataclass(frozen=True, slots=True)
class ModelQuestion(Generic[Case]):
    """A question is one call of the model, and what the score holds whatever the model says."""

    case: Case
    messages: Sequence[Mapping[str, str]]  # of the chat, `role` and `content` each
    key: str  # by which the cache knows the question: all that the reply depends on, beside the model
    components: Mapping[str, float] = field(default_factory=dict)  # of the score, before those of the ruling
    remark: str = ""  # ends the score's reason


class NothingToJudge(Exception):
    """This is raised where a response needs no model: `value` is its value, and the message is the reason."""

    def __init__(self, value: float, reason: str) -> None:
        super().__init__(reason)
        self.value = value


class ServedModelProtocol(Protocol[Row, Case]):
    """A protocol reads rows, words questions and reads replies. It holds no state and contacts nothing."""

    @property
    def name(self) -> str:
        """The scorer's name in a `Score`."""
        ...

    @property
    def asked(self) -> str:
        """The served model's part, for messages: "the judge", say."""
        ...

    def version(self, model: str) -> str:
        """Name the version of rules, prompts and `model`: the same text and version give the same value."""
        ...

    def read_row(self, verification_info: Mapping[str, Any]) -> Row:
        """Read a row. Raises `BadMessage` that names what the row lacks."""
        ...

    def asks_rule(self, row: Row) -> bool:
        """Say whether `question_of` asks the rule for this row. `question_of` then runs in a thread of its own."""
        ...

    def question_of(self, text: str, row: Row, rule: MathRule) -> ModelQuestion[Case] | Ruling:
        """Word the question about one completion, or rule where no model is needed: there is no answer, say.

        Args:
            text: the completion.
            row: what the completion answers.
            rule: mathematical equality with a reference, for protocols that ask it first.
        Raises:
            Retryable: the rule's process was killed.
        """
        ...

    def ruling_of(self, reply: Reply, question: ModelQuestion[Case]) -> Ruling:
        """Read the model's reply to a question. A reply without a clear verdict gets no value, and never a 0."""
        ...

    def self_test_questions(self) -> Sequence[ModelQuestion[Case]]:
        """Word questions whose right rulings are known."""
        ...

    def self_test_problem(self, rulings: Sequence[Ruling]) -> str | None:
        """Say what is wrong with the rulings on `self_test_questions`; None: nothing is."""
        ...


@runtime_checkable
class ReadingConversations(Protocol[Row_contra, Case]):
    """A protocol that can ask about the whole of an episode, where its section says so."""

    @property
    def reads_conversations(self) -> bool:
        """Whether it does."""
        ...

    def question_of_conversation(
        self, conversation: Conversation, row: Row_contra, rule: MathRule
    ) -> ModelQuestion[Case] | Ruling:
        """Word the question about an episode, as `question_of` about a text. `transcript` shows its turns."""
        ...


@runtime_checkable
class PlainlyAsking(Protocol[Case]):
    """A protocol that can ask about a plain answer finds out whose fault it is that a server refuses a question."""

    def plain_question(self, question: ModelQuestion[Case]) -> ModelQuestion[Case]:
        """Word the same question about `PLAIN_ANSWER`."""
        ...

    def refused(self, question: ModelQuestion[Case], reason: str) -> Ruling:
        """Rule on an answer that the servers refuse, while they take the plain question."""
        ...
