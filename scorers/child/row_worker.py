"""This process scores single rows for the process at the other end of its socket.

In: frames, the first one the `scorers` section as JSON, or OWN. Each later frame is SCORE, PREFETCH or TRY and a
line: `{"llm_output": ...}` beside a row of any shape that `tasks.route` knows; with EPISODE_KEY, a `Conversation` that
the response is the last message of. Out: for each SCORE and TRY a frame with JSON.
A line that is broken, a row that nobody scores, and a scorer with a bug are results with a reason. PREFETCH says that
the line will be asked for: a caller that sends many lines has their calls under way at once. `scorers.api` starts this
process and asks it. The process ends when the other end of its socket is closed, in the middle of a row too.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.errors import BadMessage, Permanent, PipelineError
from broker.scores import Score
from config.scorers import ScorersConfig, TaskConfig
from scorers.api import all_tasks
from scorers.build import Scorers
from scorers.child.frames import (
    EPISODE_KEY,
    OWN,
    PREFETCH,
    READY,
    REFUSED,
    STUB_KEY,
    TEXT_KEY,
    TRY,
    Result,
    failure,
    receive_frame,
    send_frame,
)
from scorers.conversation import begin, read_by, unplayed
from scorers.retries import score_with_retries
from scorers.reward.combine import combine_scores
from scorers.scorer import Asked, Conversation, Scorer, Trying
from tasks.lines import parse_object
from tasks.route import route
from tasks.values import UnknownType

ALONE_S: Final = 2.0  # from the end of its caller to its own, in the middle of a row


class RowScorer:
    """The scorers of all tasks, each built when its first row comes."""

    def __init__(self, config: ScorersConfig) -> None:
        self._config = config
        self._scorers = Scorers(config)

    def result(self, line: bytes) -> Result:
        """Score one line. `fault` names what an error is due to: the row, its type, the machine or the scorer."""
        task = None
        try:
            text, record = parse_line(line)
            task, info = route(record, self._config.tasks)
            return result_of(self._score(self._config.tasks[task], _asked(text, record), info), task)
        except UnknownType as error:
            return failure(str(error), task, fault="type")
        except BadMessage as error:
            return failure(str(error), task, fault="row")
        except Permanent as error:
            return failure(str(error), task, fault="machine")
        except Exception as error:  # noqa: BLE001 - a scorer's bug is this line's result; the next line goes on
            return failure(_bug(error), task, fault="scorer")

    def prefetch(self, line: bytes) -> None:
        """Start the calls that `result` of the same line will wait for. What is wrong with the line, `result` says."""
        with suppress(Exception):
            text, record = parse_line(line)
            task, info = route(record, self._config.tasks)
            section, asked = self._config.tasks[task], _asked(text, record)
            for judge in (self._scorers.of(section), *self._scorers.extra_scorers(section).values()):
                if unplayed(judge, asked) is None:
                    begin(judge, read_by(judge, asked), info)

    def trial(self, line: bytes) -> Result:
        """Say which answer without work passes the row of a line; a line that can't be tried is as in `result`."""
        try:
            task, info = route(parse_object(line), self._config.tasks)
            scorer = self._scorers.of(self._config.tasks[task])
            return {STUB_KEY: scorer.passing_stub(info) if isinstance(scorer, Trying) else ""}
        except BadMessage as error:
            return failure(str(error), fault="row")
        except PipelineError as error:
            return failure(str(error), fault="machine")
        except Exception as error:  # noqa: BLE001 - a scorer's bug is this line's result; the next line goes on
            return failure(_bug(error), fault="scorer")

    def close(self) -> None:
        """End every child process."""
        self._scorers.close()

    def _score(self, task: TaskConfig, asked: Asked, info: dict[str, Any]) -> Score:
        scorer = self._scorers.of(task)
        others = self._scorers.extra_scorers(task)
        for judge in (scorer, *others.values()):
            judge.check_row(info)

        def score(judge: Scorer) -> Score:
            none = unplayed(judge, asked)
            return none or score_with_retries(judge, read_by(judge, asked), info, self._config)

        return combine_scores(task, score(scorer), {name: score(other) for name, other in others.items()})


def parse_line(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return a response and its row. Raises BadMessage that names what is wrong with the line."""
    record = parse_object(line)
    return response_of(record), record


def _asked(text: str, record: Mapping[str, Any]) -> Asked:
    """Return the response, or the episode of which it is the last message. Raises BadMessage."""
    if EPISODE_KEY not in record:
        return text
    try:
        return msgspec.structs.replace(msgspec.convert(record[EPISODE_KEY], Conversation), text=text)
    except msgspec.ValidationError as error:
        raise BadMessage(f"{EPISODE_KEY} is no episode: {error}") from None


def response_of(record: Mapping[str, Any]) -> str:
    """Return the response that stands beside a row. Raises BadMessage where there is none."""
    if TEXT_KEY not in record:
        raise BadMessage(
            f"no key {TEXT_KEY!r} with the response among {', '.join(record) or 'no keys at all'}"
        )
    text = record[TEXT_KEY]
    if not isinstance(text, str):
        raise BadMessage(f"{TEXT_KEY} must be text, got {type(text).__name__}")
    # Half of a surrogate pair is no character; it can't be written anywhere, so nobody's answer depends on it.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def result_of(score: Score, task: str) -> Result:
    """Return the JSON object of a score."""
    return {
        "status": score.status.value,
        "value": score.value,
        "reason": score.reason,
        "components": dict(score.components),
        "seconds": round(score.seconds, 6),
        "scorer": score.scorer,
        "version": score.version,
        "task": task,
    }


def _bug(error: Exception) -> str:
    """Say in one line where a scorer failed, and how."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    said = traceback.format_exception_only(error)[-1].strip()
    return f"the scorer failed: {said} ({Path(frame.filename).name}:{frame.lineno} in {frame.name})"


def _end_with(link: socket.socket) -> None:
    """Wait until the other end is closed, then end this process and its children, unless it has done so by itself."""
    poll = select.poll()
    poll.register(link, 0)  # POLLHUP needs no asking
    poll.poll()
    time.sleep(ALONE_S)
    os.killpg(0, signal.SIGKILL)  # its own group: `scorers.api` starts it in one


def main() -> None:
    """Serve until the other end of the socket, whose descriptor is the first argument, is closed."""
    logging.basicConfig(level=logging.ERROR)
    with socket.socket(fileno=int(sys.argv[1])) as link:
        link.set_inheritable(False)
        threading.Thread(target=_end_with, args=(link,), name="caller", daemon=True).start()
        section = receive_frame(link)
        if section is None:
            return
        try:
            config = all_tasks() if section == OWN else ScorersConfig.model_validate_json(section)
        except Exception:  # noqa: BLE001 - its caller, who has the same environment, meets and raises the same
            send_frame(link, REFUSED)
            return
        scorer = RowScorer(config)
        try:
            send_frame(link, READY)
            while (frame := receive_frame(link)) is not None:
                if frame.startswith(PREFETCH):
                    scorer.prefetch(frame[1:])
                    continue
                answer = scorer.trial if frame.startswith(TRY) else scorer.result
                send_frame(link, json.dumps(answer(frame[1:])).encode("ascii"))
        except ConnectionError:  # nobody waits for the result any more
            pass
        finally:
            scorer.close()
