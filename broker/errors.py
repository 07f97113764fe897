"""This module has every error that crosses a module's edge.

PipelineError
├── Retryable            may succeed later: a timeout, a refused connection, a killed child
│   ├── BrokerUnavailable    Redis did not answer within `broker.outage_s`
│   └── NoRoom               Redis's memory is full, and the caller does not wait for it
└── Permanent            will fail the same way again
    ├── BadMessage           bytes that are no message of this schema
    │   └── NewerSchema          bytes of a newer program, which such a program reads
    ├── UnknownTask          no scorer has that name
    ├── WrongBroker          a Redis that this run can't use: too old, forgetful, wrong password
    ├── Fenced               a newer learner has taken the run over
    ├── WentBack             Redis has forgotten what it had acknowledged
    └── RunFailed            the run can't go on; the message is the reason that people read

An error that is neither is a bug, and surfaces.
"""

from __future__ import annotations


class PipelineError(Exception):
    """The base of all these errors; it is never raised itself."""


class Retryable(PipelineError):
    """The same call may succeed later: a timeout, a refused connection, a killed child."""


class BrokerUnavailable(Retryable):
    """Redis did not answer within `broker.outage_s`."""


class NoRoom(Retryable):
    """Redis's memory is full, and the caller does not wait for it."""


class Permanent(PipelineError):
    """The same call will fail the same way again."""


class BadMessage(Permanent):
    """The bytes are no message of this schema."""


class NewerSchema(BadMessage):
    """A newer program wrote the message, and such a program reads it."""


class UnknownTask(Permanent):
    """No scorer has that name."""


class WrongBroker(Permanent):
    """This run can't use the Redis: it is too old or forgetful, or refuses the password."""


class Fenced(Permanent):
    """A newer learner has taken the run over."""


class WentBack(Permanent):
    """Redis has forgotten what it had acknowledged."""


class RunFailed(Permanent):
    """The run can't go on; the message is the reason that people read."""
