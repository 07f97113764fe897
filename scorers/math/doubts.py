r"""Words that take a value back or leave it open: `5 \text{ is incorrect}` is no way to say 5.

In: a text in LaTeX. Out: its words of doubt. Pure functions on text, linear in its length.
"""

from __future__ import annotations

import re
from typing import Final

from scorers.math.units import unit_of

_MACRO: Final = re.compile(r"\\(?:text|math)[a-z]*|\\(?:mbox|emph|operatorname|rm|bf|it)(?![A-Za-z])|[{}~*]")
_WORD: Final = re.compile(
    r"(?<![A-Za-z\\])(?:(?:not|no|nor|non|none|neither|never|nope|nothing|nowhere|hardly|scarcely|barely|cannot|cant"
    r"|isnt|arent|wasnt|doesnt|dont|wont|[a-z]{2,8}n['\u2019]t|false|falsely|wrong|wrongly|incorrect|incorrectly"
    r"|inaccurate|invalid|untrue|unlikely|unsure|uncertain|impossible|inadmissible|inconsistent|absurd|nonsense|lie"
    r"|contradict(?:ion|ory|s)?|mistaken|opposite|reverse|negated|denied|refuted|disproved|excluding|excluded|except"
    r"|rejected|retracted|discarded|disregard|ignore|extraneous|fails|failed|maybe|perhaps|possibly|probably"
    r"|presumably|supposedly|allegedly|seemingly|likely|might|could|would|should|guess(?:ed|ing)?|doubt(?:ed|ful)?"
    r"|but|unless|otherwise|instead|actually|however|although|though|whereas|another|elsewhere|if|whether|assuming"
    r"|almost|nearly|roughly|plus|minus|squared|cubed|doubled|tripled|halved|factorial|etc|downwards?|so\s+on|so\s+forth|and\s+(?:more|others)|among\s+others"
    r")(?![A-Za-z])|(?:at\s+(?:most|least)|(?:less|more|fewer|greater|bigger|larger|smaller|other|rather)\s+than"
    r"|too\s+[a-z]+|ruled\s+out|off\s+by|far\s+from|short\s+of|or\s+(?:so|more|less))(?![A-Za-z]))",
    re.IGNORECASE,
)
_NEGATIVE: Final = re.compile(
    r"(?<![A-Za-z\\])(?:negative|minus|reciprocal|inverse)\s*[.)!]*\s*\Z", re.IGNORECASE
)
_ADJECTIVES: Final = (
    r"(?:only|final|correct|right|exact|required|desired|unique|larger|largest|smaller|smallest|least|greatest|maximum"
    r"|minimum|positive|possible|total|best|wanted|sought)"
)
_NOUNS: Final = (
    r"(?:answer|solution|root|result|value|number|one|total|sum|maximum|minimum|correct|right|enough)"
)
_VERDICT: Final = re.compile(  # a sentence about the value before it that is more than `is the answer`
    r"(?<=[\w)}\]])\s*(?:\\[,;: ]\s*)*\\(?:text|math|mbox)[a-z]*\s*\{[^A-Za-z{}]*(?:(?:which|that|it|this)\s+)?"
    r"(is|isn|are|aren|was|wasn|were|be|do|don|does|doesn|did|didn|has|hasn|have|had|seems?|looks?|will|can|shall|must)\b"
    rf"(?!\s+(?:indeed\s+)?(?:(?:the|our|my)\s+)?(?:{_ADJECTIVES}\s+)*{_NOUNS}s?\s*[.!)]*\s*\}})",
    re.IGNORECASE,
)
_TIMES: Final = re.compile(r"\{\s*(times)\s*\}\s*[\w\\(]")
_RAISED: Final = re.compile(r"(\\?[A-Za-z]+)\s+(?:squared|cubed)(?![A-Za-z])", re.IGNORECASE)
_QUESTION: Final = re.compile(r"\\(?:text|mbox)[a-z]*\s*\{[^{}]*\?[^{}]*\}|[\w)}\]]\s*\?\s*\Z")
_CASES: Final = re.compile(r"\\begin\s*\{(?:cases|array|aligned)\}")
_CONDITIONS: Final = frozenset({"if", "otherwise", "whether", "assuming", "unless"})
_STRUCK: Final = re.compile(
    r"\\(?:[bx]?cancel(?:to)?|sout|st|lnot|neg|not(?!\s*\\?(?:[=<>]|[a-z])))(?![A-Za-z])"
)


def doubts(text: str) -> frozenset[str]:
    r"""Return the words that negate, doubt or judge, whatever commands set them, also where two commands cut one.

    `\text{cm squared}` is a unit, and `if` is a condition among cases.
    """
    found = {*_STRUCK.findall(text), *_VERDICT.findall(text), *_TIMES.findall(text)}
    found |= {"?"} if _QUESTION.search(text) else set()
    for bare in (_MACRO.sub("", text), _MACRO.sub(" ", text)):
        words = _RAISED.sub(lambda raised: raised[0] if unit_of(raised[1]) is None else "", bare)
        found |= {" ".join(word.lower().split()) for word in _WORD.findall(words)}
        found |= {word.strip().lower() for word in _NEGATIVE.findall(words)}
    return frozenset(found - _CONDITIONS if _CASES.search(text) else found)
