"""Remove writes to files from a script: behind the walls only a scratch folder is writable.

In: a script's text. Out: the same lines, in which `> FILE`, `>> FILE` and `&> FILE` write to /dev/null, `> >(...)` too,
and `< <(...)` is `<<< "$(...)"`, since there is no /dev/fd either. Quotes, comments, here-documents, `[[ ... ]]` and
`(( ... ))` are unchanged. Pure.
"""

from __future__ import annotations

import re
from typing import Final

_ENDS: Final = frozenset(" \t\n;&|()<>")
_OUT: Final = re.compile(r"(?:&>>|&>|>>|>\||>)(?![&>])[ \t]*")
_PLAIN: Final = re.compile(r"[\w=./,:{}$+*@%~^?! \t-]+")
_PROCESS: Final = re.compile(r"<[ \t]+<\(")
_HEREDOC: Final = re.compile(r"<<(-?)[ \t]*(\\?)(['\"]?)([\w.-]+)\3")
_COMPARES: Final = (("[[", "]]"), ("((", "))"))


def without_writes(script: str) -> str:
    """Return the script without writes to files; its lines keep their numbers."""
    out: list[str] = []
    at = 0
    documents: list[re.Match[str]] = []
    while at < len(script):
        plain = _PLAIN.match(script, at)
        end = plain.end() if plain else _untouched(script, at)
        if end is None and (found := _HEREDOC.match(script, at)) and not script.startswith("<<<", at):
            documents.append(found)
            end = found.end()
        if end is not None:
            out.append(script[at:end])
            at = end
        elif found := _PROCESS.match(script, at):
            end = end_of_group(script, found.end() - 1)
            out.append(f'<<< "$({script[found.end() : end - 1]})"')
            at = end
        elif found := _OUT.match(script, at):
            end = _end_of_word(script, found.end())
            written = script[found.end() : end]
            out.append(script[at:end] if written.startswith("/dev/") else f"{found[0]}/dev/null")
            at = end
        else:
            out.append(script[at])
            at += 1
            if out[-1] == "\n" and documents:
                end = _end_of_documents(script, at, documents)
                out.append(script[at:end])
                at, documents = end, []
    return "".join(out)


def _untouched(script: str, at: int) -> int | None:
    """Return the end of an unchanged part that begins here: a quote, an escape, a comment, a comparison."""
    char = script[at]
    if char == "\\":
        return min(at + 2, len(script))
    if char in "'\"`":
        return end_of_quote(script, at)
    before = script[at - 1] if at else "\n"
    if char == "#" and before in " \t\n;(":
        end = script.find("\n", at)
        return len(script) if end < 0 else end
    for opening, closing in _COMPARES:
        if script.startswith(opening, at) and before in " \t\n;(!$&|":
            end = script.find(closing, at + 2)
            return None if end < 0 else end + 2
    return at + 3 if script.startswith(("<<<", "2>&"), at) else None


def _end_of_documents(script: str, at: int, documents: list[re.Match[str]]) -> int:
    """Return the end of the here-documents that begin here."""
    for document in documents:
        tabs = "\t*" if document[1] else ""
        found = re.compile(rf"^{tabs}{re.escape(document[4])}$", re.MULTILINE).search(script, at)
        at = len(script) if found is None else found.end()
    return at


def end_of_quote(text: str, start: int) -> int:
    """Return the end of the quote that opens at `start`; the text's end for an open one."""
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == quote:
            return at + 1
        if text[at] == "\\" and quote != "'":
            at += 2
        elif quote == '"' and text.startswith("$(", at):
            at = end_of_group(text, at + 1)
        else:
            at += 1
    return len(text)


def end_of_group(text: str, start: int) -> int:
    """Return the end of the parenthesis that opens at `start`; the text's end for an open one."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] in "'\"`":
            at = end_of_quote(text, at)
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
        if not depth:
            return at
    return len(text)


def _end_of_word(text: str, at: int) -> int:
    if text.startswith(">(", at):
        return end_of_group(text, at + 1)
    while at < len(text) and text[at] not in _ENDS:
        if text[at] == "\\":
            at += 2
        elif text[at] in "'\"`":
            at = end_of_quote(text, at)
        elif text.startswith("$(", at):
            at = end_of_group(text, at + 1)
        else:
            at += 1
    return min(at, len(text))
