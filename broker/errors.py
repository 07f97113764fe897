"""The errors that modules raise to each other.

PipelineError
├── Retryable            may succeed later: a timeout, a refused connection, a killed child
│   ├── BrokerUnavailable    Redis did not answer within `broker.outage_s`
│   └── NoRoom               Redis's memory is full, and the caller does not wait for it
└── Permanent            will fail the same way again
    ├── BadMessage           bytes that are no message of a supported schema
    │   └── NewerSchema          bytes that only a newer version of this program reads
    ├── UnknownTask          no scorer has that name
    ├── WrongBroker          a Redis that this run can't use: too old, not durable, wrong password
    ├── Fenced               a newer learner has taken the run over
    ├── WentBack             Redis has lost writes that it had acknowledged
    └── RunFailed            the run can't continue; the message is the reason, for people

Any other error is a bug and is not caught.
"""

from __future__ import annotations


class PipelineError(Exception):
    """The base class of these errors; never raised itself."""


class Retryable(PipelineError):
    """The same call may succeed later: a timeout, a refused connection, a killed child."""


class BrokerUnavailable(Retryable):
    """Redis did not answer within `broker.outage_s`."""


class NoRoom(Retryable):
    """Redis's memory is full, and the caller does not wait for it."""


class Permanent(PipelineError):
    """The same call will fail the same way again."""


class BadMessage(Permanent):
    """The bytes are no message of a supported schema."""


class NewerSchema(BadMessage):
    """A newer version of this program wrote the message; only such a version reads it."""


class UnknownTask(Permanent):
    """No scorer has that name."""


class WrongBroker(Permanent):
    """This run can't use the Redis: it is too old, not durable, or refuses the password."""


class Fenced(Permanent):
    """A newer learner has taken the run over."""


class WentBack(Permanent):
    """Redis has lost writes that it had acknowledged."""


class RunFailed(Permanent):
    """The run can't continue; the message is the reason, for people."""
