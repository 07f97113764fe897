"""This module goes through a shell script as bash would, without running a command.

In: a script's text and its arguments. Out: the commands with their words expanded, and what the script exports.
Assignments, exports, `if`, tests, arrays and arithmetic are followed. What stands in a loop, a function or a `case` is
passed over, and what it assigns is unknown from there on; so is what a condition decides that only a running script
could decide. `exit` ends the script.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from config.explanations import ConfigError
from tools.imports.shell.expansion import MOST_DEPTH, Variables, arithmetic, expand, expand_one, unknown
from tools.imports.shell.tokens import Token, Unreadable, tokens_of
from tools.imports.theirs import UNKNOWN

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARES: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
_OPENS: Final = {
    "if": "fi",
    "while": "done",
    "until": "done",
    "for": "done",
    "select": "done",
    "case": "esac",
    "{": "}",
}
_ENDS: Final = frozenset({"fi", "done", "esac", "}", "then", "else", "elif", "do"})
_BEFORE_COMMAND: Final = _ENDS | {"{", "!"}
_SEPARATORS: Final = frozenset({"\n", ";", "&", "&&", "||", "|", "|&", ";;"})
_NUMBERS: Final = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with its words, each with the line that it stands in."""

    words: tuple[tuple[str, int], ...]
    line: int


@dataclass(slots=True, kw_only=True)
class Ran:
    """What a script would have done."""

    commands: list[Command] = field(default_factory=list)
    exported: dict[str, tuple[str, int]] = field(default_factory=dict)


class _Ended(Exception):
    """The script has come to `exit`."""


def run_through(
    script: str, name: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Ran:
    """Go through a script that is started with these arguments. Raises ConfigError: it can't be read."""
    found = {**_asked_of_slurm(script), **(os.environ if environment is None else environment)}
    try:
        passage = _Passage(tokens_of(script), found, list(arguments), name)
        passage.statements(())
    except _Ended:
        pass
    except Unreadable as error:
        raise ConfigError(f"{name}: no shell script: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: no shell script of verl's: groups in one another, too deep") from None
    return passage.ran


class _Passage:
    """One way through a script's tokens."""

    def __init__(
        self, tokens: list[Token], environment: Mapping[str, str], arguments: list[str], name: str
    ) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0  # of `if` in one another
        self.ran = Ran()
        self._variables = Variables(environment)
        self._variables |= {str(place): value for place, value in enumerate(arguments, 1)}
        self._variables |= {"@": arguments, "*": " ".join(arguments), "#": str(len(arguments)), "0": name}

    def statements(self, until: Sequence[str]) -> None:
        """Go on to a word of `until`, which stays the next one, or to the end."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.is_word and token.text in until:
                return
            if not token.is_word:
                self._at += 1  # a separator, or a subshell's parenthesis
            else:
                self._statement()

    def _statement(self) -> None:
        token = self._tokens[self._at]
        following = self._tokens[self._at + 1 : self._at + 3]
        if token.text == "if":
            self._if()
        elif token.text == "function" or [one.text for one in following] == ["(", ")"]:
            self._pass_over_function()
        elif token.text in _OPENS and token.text != "{":
            self._pass_over(_OPENS[token.text])
        elif token.text in ("{", "}", "then", "do", "!", "time"):
            self._at += 1
        elif token.text in {"[[", "["}:
            self._test()
        else:
            self._command()

    def _if(self) -> None:
        """Take the branch whose condition holds; where that is not known, none, and what they assign is unknown."""
        start = self._at
        self._depth += 1
        if self._depth > MOST_DEPTH:
            line = self._tokens[start].line
            raise Unreadable(f"line {line}: `if` in one another, deeper than {MOST_DEPTH}")
        end = self._end_of_block(start, "fi")
        taken = False
        while self._at < end:
            word = self._tokens[self._at].text
            self._at += 1
            holds = True if word == "else" else self._condition()
            if holds is None:
                self._at = start
                self._pass_over("fi")
                self._depth -= 1
                return
            if word != "else":
                self._at += 1  # `then`
            if holds and not taken:
                taken = True
                self.statements(("elif", "else", "fi"))
            else:
                self._skip_to(("elif", "else", "fi"), end)
            if self._at >= end - 1:
                break
        self._at = end
        self._depth -= 1

    def _condition(self) -> bool | None:
        """Say whether what stands before `then` holds; None: only the running script knows."""
        words: list[Token] = []
        while self._at < len(self._tokens) and not (
            self._tokens[self._at].is_word and self._tokens[self._at].text == "then"
        ):
            words.append(self._tokens[self._at])
            self._at += 1
        while words and not words[-1].is_word and words[-1].text in ("\n", ";"):
            words.pop()
        return self._holds(words)

    def _test(self) -> None:
        """Read `[ ... ] && command`: where the test does not hold, the command is passed over."""
        closing = "]]" if self._tokens[self._at].text == "[[" else "]"
        words: list[Token] = []
        while self._at < len(self._tokens) and self._tokens[self._at].text != "\n":
            words.append(self._tokens[self._at])
            self._at += 1
            if words[-1].text == closing:
                break
        holds = self._holds(words)
        following = self._tokens[self._at].text if self._at < len(self._tokens) else ""
        if (following == "&&" and not holds) or (following == "||" and holds is not False):
            while self._at < len(self._tokens) and self._tokens[self._at].text not in ("\n", ";"):
                self._at += 1

    def _holds(self, tokens: Sequence[Token]) -> bool | None:
        """Evaluate one test in brackets; None where it is another command, or its words are not known."""
        words = [token.text for token in tokens]
        if len(words) < 3 or words[0] not in ("[", "[["):
            return None
        inside, is_not = words[1:-1], False
        while inside and inside[0] == "!":
            inside, is_not = inside[1:], not is_not
        if any(one in ("&&", "||", "-a", "-o") for one in inside):
            return None
        values = [expand_one(one, self._variables) for one in inside]
        if any(UNKNOWN in one for one in values):
            return None
        holds = _compared(values, is_pattern=words[0] == "[[")
        return None if holds is None else holds != is_not

    def _command(self) -> None:
        line = self._tokens[self._at].line
        tokens: list[Token] = []
        while self._at < len(self._tokens) and (
            self._tokens[self._at].is_word or self._tokens[self._at].text not in _SEPARATORS | {"(", ")"}
        ):
            tokens.append(self._tokens[self._at])
            self._at += 1
        declares = bool(tokens) and tokens[0].text in _DECLARES
        is_exported = declares and tokens[0].text == "export"
        rest = list(tokens[1:] if declares else tokens)
        assigned: list[str] = []
        while rest and (found := _ASSIGNMENT.fullmatch(rest[0].text)):
            assigned.append(self._assign(found, rest.pop(0)))
        for name in assigned if is_exported or rest else ():
            self._export(name, line)
        if declares:
            for token in rest:
                if token.text.isidentifier() and is_exported:
                    self._export(token.text, line)
                elif found := _ASSIGNMENT.fullmatch(token.text):  # after an option: `declare -a X=(...)`
                    self._assign(found, token)
            return
        words = tuple((word, token.line) for token in rest for word in expand(token.text, self._variables))
        if words and words[0][0] in ("exit", "return"):
            raise _Ended
        if words:
            self.ran.commands.append(Command(words=words, line=line))

    def _assign(self, found: re.Match[str], token: Token) -> str:
        name, plus, written = found.groups()
        old = self._variables.get(name, "")
        if token.array is not None:
            new = [word for one in token.array for word in expand(one, self._variables)]
            self._variables.spend(len(new))
            self._variables[name] = (
                [*(old if isinstance(old, list) else [old] if old else []), *new] if plus else new
            )
        else:
            value = expand_one(written, self._variables)
            self._variables[name] = f"{old}{value}" if plus and isinstance(old, str) else value
            self._variables.spend(len(self._variables[name]))
        return name

    def _export(self, name: str, line: int) -> None:
        value = self._variables.get(name, "")
        self._variables.spend(sum(map(len, value)))
        self.ran.exported[name] = (value if isinstance(value, str) else " ".join(value), line)

    def _pass_over(self, closing: str) -> None:
        """Leave a block out, and forget what it assigns."""
        start = self._at
        self._at = self._end_of_block(start, closing)
        where = f"line {self._tokens[start].line}"
        for token in self._tokens[start : self._at]:
            if token.is_word and (found := _ASSIGNMENT.fullmatch(token.text)):
                self._variables[found[1]] = unknown(f"${found[1]}, which {where} decides")

    def _pass_over_function(self) -> None:
        while self._at < len(self._tokens) and self._tokens[self._at].text != "{":
            self._at += 1
        self._pass_over("}")

    def _end_of_block(self, start: int, closing: str) -> int:
        """Return where the block that opens at `start` has ended."""
        depth, at = 0, start
        opening = {word for word, end in _OPENS.items() if end == closing}
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.is_word and self._begins_command(at):
                depth += (token.text in opening) - (token.text == closing)
            at += 1
            if not depth:
                return at
        raise Unreadable(f"line {self._tokens[start].line}: {self._tokens[start].text} without {closing}")

    def _begins_command(self, at: int) -> bool:
        """Say whether the word at a place stands where a command begins, so that it may be a word of the language."""
        before = self._tokens[at - 1] if at else None
        return before is None or not before.is_word or before.text in _BEFORE_COMMAND

    def _skip_to(self, words: Sequence[str], end: int) -> None:
        """Go on to one of the words of this block, past the blocks inside it."""
        while self._at < end:
            token = self._tokens[self._at]
            if token.is_word and self._begins_command(self._at):
                if token.text in words:
                    return
                if token.text in _OPENS and token.text != "{":
                    self._at = self._end_of_block(self._at, _OPENS[token.text])
                    continue
            self._at += 1


def _asked_of_slurm(script: str) -> dict[str, str]:
    """Return the variables that Slurm would set for what the script asks of it in `#SBATCH` lines."""
    asked = dict(re.findall(r"^#SBATCH\s+--?([\w-]+)[ =](\S+)", script, re.MULTILINE))
    names = {
        "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        "N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        "job-name": ("SLURM_JOB_NAME",),
        "J": ("SLURM_JOB_NAME",),
        "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
        "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    }
    return {
        name: asked[option] for option, variables in names.items() if option in asked for name in variables
    }


def _compared(values: Sequence[str], *, is_pattern: bool) -> bool | None:
    """Evaluate a test's words; None for one that is not known here."""
    holds: bool | None = None
    match values:
        case ["-z", *rest]:
            holds = not any(rest)
        case ["-n", *rest]:
            holds = any(rest)
        case ["-f" | "-d" | "-e" | "-s", value]:
            holds = Path(value).exists()
        case [value]:
            holds = bool(value)
        case [left, "==" | "=" | "!=" as sign, right]:
            is_same = fnmatchcase(left, right) if is_pattern else left == right
            holds = is_same == (sign != "!=")
        case [left, sign, right] if sign in _NUMBERS:
            numbers = [arithmetic(one, Variables()) for one in (left, right)]
            if not any(UNKNOWN in one for one in numbers):
                holds = _NUMBERS[sign](int(numbers[0]), int(numbers[1]))
    return holds
