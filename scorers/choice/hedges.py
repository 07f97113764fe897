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
_ANOTHER: Final = re.compile(
    r"\b(?:the|an?|any|some)\s+(?:first|second|third|fourth|fifth|last|previous|next|other|former|latter|different)"
    r"\s+(?:one|option|choice|answer|letter)\b|\b(?:perhaps|maybe|possibly|or)\s+(?:another|others?|any|all|none|both|"
    r"neither)\b|\banother\s+(?:one|option|choice|answer|letter)\b|\b(?:any|all|either|several|two|both)\s+of\s+(?:them|"
    r"these|those)\b|\b(?:both|all)\s+(?:are|could|may|might)\b",
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
# A sentence that says of options that they are none.
_REJECTED: Final = re.compile(
    r"\b(?:wrong|incorrect|false|not|cannot|never|eliminated?|excluded?|rules?\s+out|ruled\s+out|fails?|unlike|unrelated"
    r"|irrelevant|neither|nor|(?:is|are)\s+out|distractors?)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_UNDECIDED: Final = re.compile(
    r"\b(?:could|might|may|maybe|perhaps|possibl[ey]|probably|also|alternatively|equally|or|likely|unless|almost|sure)\b"
    r"|\b(?:not|isn['\u2019]t|aren['\u2019]t)\s+(?:necessarily\s+)?(?:wrong|incorrect|false|out|excluded|eliminated)\b",
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
    return bool(_dressed(text, letter, count) or _ANOTHER.search(text))


def takes_back(text: str, letter: str, count: int, *, may_reject: bool = True) -> bool:
    """Return whether an explanation behind an answer takes it back or offers another one; see `names_another`.

    `may_reject`: it may say of other options that they are wrong.
    """
    if _TAKEN_BACK.search(text) or _ANOTHER.search(text) or re.search(rf"\bnot\W+{letter}\b", text):
        return True
    for sentence in _SENTENCE_END.split(text):
        plain = words(sentence)
        if any(_is_option(found, letter, count) for found in re.findall(_LETTER, plain)) and (
            not may_reject or _REJECTED.search(plain) is None or _UNDECIDED.search(plain) is not None
        ):
            return True
    return False


def _dressed(text: str, letter: str, count: int) -> bool:
    """Return whether an option other than `letter` stands in the text as options do."""
    return any(
        _is_option(next(filter(None, found.groups())), letter, count) for found in _DRESSED.finditer(text)
    )


def _is_option(found: str, letter: str, count: int) -> bool:
    return found.upper() != letter and ord(found.upper()) - ord("A") < count
