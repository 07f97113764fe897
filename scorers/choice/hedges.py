"""Whether what stands behind a letter takes it back, or holds a second letter ready.

In: the letter that an answer states, the words behind it, and how many options there are. Out: whether these words
hedge. An option's own text may hold letters (`Vitamin D`, `the current in A`), and an explanation may say that other
options are wrong; neither may offer one of them. Nothing here knows the options' texts. Pure, linear in the length.
"""

from __future__ import annotations

import re
from typing import Final

from scorers.text.latex import words

# A letter by itself: a capital that is neither an article nor a pronoun, or a small one that is no word and no unit.
_VERBS: Final = (
    r"(?:is|are|was|would|could|might|may|can|and|or|seems?|looks?|works?|fits?|too|also|because)\b"
)
_LETTER: Final = (
    rf"(?<![\w'\u2019\\])(?:[B-HJ-Z]|A(?!\s+(?!{_VERBS})[a-z])|[b-hj]|[aiI](?=\W{{0,5}}(?:$|[.;:,!?)\]])))"
    r"(?![\w'\u2019]|\.\w)"
)
_ALONE: Final = re.compile(rf"\W{{0,9}}{_LETTER}\W{{0,9}}")
# A letter as options have them: in brackets, before a mark or between two, behind a word that chooses, called right.
_CHOOSING: Final = (
    r"and|or|nor|maybe|perhaps|possibly|probably|likely|also|either|actually|instead|otherwise|alternatively|else|wait|no"
    r"|options?|choices?|answers?|choose|pick|guess|think|sa(?:y|id)|be|it's|it\s+is|between|but|versus|vs\.?"
    r"|unless|equally|letter|called|backup\s+is"
)
_DRESSED: Final = re.compile(
    rf"[(\[{{]\s*(?P<a>{_LETTER})\s*[)\]}}]|(?:^|(?<=\s))[*_]*(?P<b>{_LETTER})[*_]*[.):](?!\w)"
    rf"|(?:^|[,;:|?!\u2013\u2014\u2192]|\s-)\s{{0,5}}[*_\"'`]*(?P<c>{_LETTER})[*_\"'`]*\s*(?:$|[,;:|.?!\u2013\u2014\u2192]|-\s)"
    rf"|[,/&+]\s*(?P<d>(?=[A-Z]){_LETTER})|\b(?i:{_CHOOSING})\W{{1,5}}(?P<e>{_LETTER})"
    rf"|(?P<f>{_LETTER})[*_\"'`]*\s+(?i:(?:is|are|was|would\s+be|could|might|may|can|seems?|looks?|works?|too|also|fits?)\b"
    r"(?:\s+(?:also|be|as|well|equally|my|the))*\s*(?:(?:right|correct|true|answer|one|possible|likely|better|best|fine"
    r"|ok(?:ay)?|plausible)\b|(?:$|[.;,!?])))",
    re.MULTILINE,
)
# An option that a text begins with, and not a word of it: `B instead`, `B/C`, `B C`, but not `B cells`.
_FIRST: Final = re.compile(
    rf"\W{{0,9}}(?P<a>{_LETTER})(?:\W{{1,9}}{_LETTER}|\s*(?:[/&|,\\]|$)|\s+(?i:and|or|instead|if|unless|rather|works?|would|"
    r"too|also|is\s+(?:right|correct)|seems?|fits?)\b)"
)
_ORDINAL: Final = r"(?:first|second|third|fourth|fifth|last|previous|next|other|former|latter|different)"
_ANOTHER: Final = re.compile(
    rf"\b(?:the|an?|any|some)\s+{_ORDINAL}\s+one\b|\b{_ORDINAL}\s+(?:option|choice|answer|letter)\b"
    r"|\b(?:number|option|choice)\s+(?:one|two|three|four|five|[1-9])\b|\b(?:perhaps|maybe|possibly|or)\s+(?:another|others?"
    r"|any|all|none|both|neither)\b|\banother\s+(?:one|option|choice|answer|letter)\b|\banother\W*$|\b(?:any|all|either"
    r"|several|two|both)\s+of\s+(?:them|these|those)\b|\b(?:both|all)\s+(?:are|could|may|might)\b",
    re.IGNORECASE,
)
_TAKEN_BACK: Final = re.compile(
    r"\b(?:not|never|un)[ -]?(?:sure|certain)\b|n['\u2019]t\s+(?:sure|certain|know)\b|\bsecond\s+thoughts?\b"
    r"|\breconsider|\bchange\s+my\b|\bmy\s+mistake\b|\bI\s+was\s+wrong\b|\bcorrection\b|\bscratch\s+that\b|\bjust\s+(?:a\s+)?guess"
    r"|\bcould\s+be\s+wrong\b|\b(?:this|that|which|it|my\s+answer)\s+(?:is|was|may\s+be|might\s+be)\s+(?:wrong|incorrect)\b"
    r"|\bno\s+idea\b|\bwhatever\b"
    r"|(?:^|[.!?;]\s+)\W{0,9}(?:or|wait|no|actually|hmm+|alternatively|maybe|perhaps|possibly|but\s+(?:maybe|perhaps|it))\b",
    re.IGNORECASE | re.MULTILINE,
)
# What a sentence says of options that are none: an odd number of times, since twice is a doubt.
_REJECTED: Final = re.compile(
    r"\b(?:wrong|incorrect|false|not|cannot|never|eliminated?|excluded?|rules?\s+out|ruled\s+out|fails?|unlike|unrelated"
    r"|irrelevant|impossible|unlikely|neither|(?:is|are)\s+out|distractors?)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_REASON: Final = re.compile(r"\b(?:because|since|as|which|for)\b", re.IGNORECASE)
_UNDECIDED: Final = re.compile(
    r"\b(?:could|might|may|maybe|perhaps|possibl[ey]|probably|also|alternatively|equally|or|likely|unless|almost|sure|then"
    r"|if\s+(?:not|wrong|that)|not\s+(?:only|just|necessarily|entirely|quite))\b",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+")


def names_another(text: str, letter: str, count: int) -> bool:
    """Return whether the text of an option holds another option.

    Args:
        text: what stands behind the letter in the same place.
        letter: the stated one.
        count: of options, or the most that there may be.
    """
    text = words(text)
    if _ALONE.fullmatch(text):
        return True
    first = _FIRST.match(text)
    return bool(
        (first is not None and _is_option(first["a"], letter, count))
        or _dressed(text, letter, count)
        or _ANOTHER.search(text)
        or _denied(text, letter)
    )


def takes_back(text: str, letter: str, count: int, *, may_reject: bool = True) -> bool:
    """Return whether an explanation behind an answer takes it back or offers another one; see `names_another`.

    `may_reject`: it may say of other options that they are wrong.
    """
    if _TAKEN_BACK.search(text) or _ANOTHER.search(text) or _denied(text, letter):
        return True
    for sentence in _SENTENCE_END.split(text):
        plain = words(sentence)
        if not _names_option(plain, letter, count):
            continue
        claim, *reasons = _REASON.split(plain, maxsplit=1)
        decided = [claim, *(reason for reason in reasons if _names_option(reason, letter, count))]
        is_rejecting = len(_REJECTED.findall(claim)) % 2 == 1 and not any(map(_UNDECIDED.search, decided))
        if not may_reject or not is_rejecting:
            return True
    return False


def _names_option(text: str, letter: str, count: int) -> bool:
    return any(_is_option(found, letter, count) for found in re.findall(_LETTER, text))


def _denied(text: str, letter: str) -> bool:
    """Return whether a text says that the stated letter is wrong."""
    return bool(
        re.search(
            rf"\b(?:not|isn['\u2019]t)\W{{1,5}}{letter}\b|\b{letter}\W{{1,5}}(?:is|was)\s+(?:wrong|incorrect|false|not)\b",
            text,
        )
    )


def _dressed(text: str, letter: str, count: int) -> bool:
    """Return whether an option other than `letter` stands in the text as options do."""
    return any(
        _is_option(next(filter(None, found.groups())), letter, count) for found in _DRESSED.finditer(text)
    )


def _is_option(found: str, letter: str, count: int) -> bool:
    return found.upper() != letter and ord(found.upper()) - ord("A") < count
