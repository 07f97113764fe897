"""Texts stand in the prompts of served models between marks that no text can forge.

In: what a model or a row wrote. Out: the text between two lines that hold a nonce. Nothing is substituted into a
template, so whatever an answer holds (`{{CRITERIA}}`, a closing mark, a grading) stays text at its place.

The nonce is a hash of the case, so the same case is the same prompt in every process and for ever. No answer can hold
its nonce: a text would have to hold its own hash, and a text that did would get another nonce here. The key of a case,
under which its verdict is kept, is made before there is a nonce.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from tasks.thoughts import TABLE

_NONCE_CHARS: Final = 12

# What a judge that quotes an answer may not be taken to think by; words without a bracket are no tokens.
THOUGHT_MARKS: Final = [mark for marks in TABLE for mark in marks.texts if not mark[0].isalpha()]
# Names of special tokens. A server that tokenizes a message reads them as such, and an answer could end its own turn.
_TOKEN: Final = re.compile(
    r"<(?=[|\uff5c][^<>|\uff5c\n]{1,60}[|\uff5c]>)"
    r"|<(?=/?s>|/?tool_(?:call|response)>|(?:start|end)_of_turn>|/?(?:bos|eos|pad|unk)>"
    r"|\|?turn\|?>|/?SYS>>|/?(?:seed|think):[^<>\n]{1,60}>|reserved_[0-9]{1,5}>|[se]op>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|gMASK)\]"
    r"|\|[^\[\]|\n]{1,60}\|\])"
    + "".join(f"|{re.escape(mark[0])}(?={re.escape(mark[1:])})" for mark in THOUGHT_MARKS),
    re.IGNORECASE,
)


def nonce_for(key: str, *texts: str) -> str:
    """Make twelve hexadecimal digits that stand in none of the texts, in any case; the same for the same `key`."""
    held = "\0".join(texts).lower()
    turn = 0
    while (nonce := hashlib.blake2b(f"{turn}{key}".encode()).hexdigest()[:_NONCE_CHARS]) in held:
        turn += 1
    return nonce


def enclosed(text: str, nonce: str, speaker: str = "") -> str:
    """Put a text between two lines with the nonce, and break up special tokens: no server may take them for its own.

    Args:
        text: whatever a model or a row wrote.
        nonce: the call's, see `nonce_for`.
        speaker: whose text it is, for the first line, in our own words; "": that is known.
    """
    whose = f", {speaker}" if speaker else ""
    return f"[begin {nonce}{whose}]\n{_TOKEN.sub(lambda found: found[0] + ' ', text)}\n[end {nonce}]"
