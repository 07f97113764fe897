"""Some answers have nothing in them, and judges are known to call such answers right.

In: the part of a response that is judged. Out: whether anybody could find an answer in that part. Many judges, large
ones too, give the point to a lone ":", to "Solution" or to "Let's solve this problem step by step." (arXiv:2507.08794).
A policy finds that out. Such an answer scores 0 before a judge is asked. What might be an answer in some case
stays: any number, any word that is not an opener, any mathematical symbol. Linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain, groupby
from typing import Final

_MAX_CHARS: Final = 1000  # nothing longer is looked at: a text of so many openers is the judge's to see
_TAGS: Final = re.compile(r"</?[a-z_|]{1,30}>", re.IGNORECASE)
_MACROS: Final = re.compile(r"\\(?:boxed|text(?:bf|it|rm)?|math(?:bf|rm)|q?quad|left|right|[,;:! ()\[\]])")
_BLANKS: Final = re.compile(
    "[\u115f\u1160\u3164\uffa0\u2800]"
)  # letters by their category, and nothing to see
_PIECES: Final = re.compile(r"[.!?:;,\n\u3002\uff01\uff1f\uff1a\uff0c\u2026]+")
_WORDS: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")

# Whole pieces that are no answer by themselves.
_OPENERS: Final = frozenset(
    {
        "solution",
        "the solution",
        "answer",
        "the answer",
        "answer is",
        "the answer is",
        "my answer",
        "my answer is",
        "final answer",
        "the final answer",
        "the final answer is",
        "explanation",
        "reasoning",
        "my reasoning",
        "thought",
        "thoughts",
        "thought process",
        "thinking",
        "thinking process",
        "step by step",
        "step 1",
        "step one",
        "conclusion",
        "in conclusion",
        "so",
        "therefore",
        "thus",
        "hence",
        "ok",
        "okay",
        "sure",
        "alright",
        "pass",
        "idk",
        "no idea",
        "i have no idea",
        "i don't know",
        "i do not know",
        "i'm not sure",
        "i am not sure",
        "i can't answer",
        "i cannot answer",
        "respuesta",
        "la respuesta",
        "solución",
        "solucion",
        "réponse",
        "la réponse",
        "lösung",
        "antwort",
        "risposta",
        "soluzione",
        "resposta",
        "solução",
        "ответ",
        "решение",
        "解",
        "解答",
        "解説",
        "解法",
        "解析",
        "答",
        "答案",
        "答え",
        "回答",
        "思考过程",
        "思考過程",
        "かいせつ",
        "かいとう",
        "こたえ",
        "풀이",
        "답",
        "정답",
        "해설",
    }
)
# Words of announcements ("Let's solve this problem step by step"), and what may stand beside them.
_ANNOUNCES: Final = frozenset(
    {"let", "let's", "lets", "solve", "solving", "think", "thinking", "reason", "analyze", "analyse"}
)
_BESIDE: Final = _ANNOUNCES | frozenset(
    {
        "a",
        "about",
        "again",
        "am",
        "an",
        "and",
        "answer",
        "approach",
        "at",
        "break",
        "by",
        "carefully",
        "closely",
        "consider",
        "deeply",
        "detail",
        "details",
        "down",
        "each",
        "first",
        "following",
        "for",
        "given",
        "go",
        "going",
        "have",
        "help",
        "here",
        "how",
        "i",
        "i'll",
        "i'm",
        "in",
        "into",
        "is",
        "it",
        "logically",
        "look",
        "me",
        "my",
        "need",
        "of",
        "ok",
        "okay",
        "on",
        "our",
        "parts",
        "pieces",
        "problem",
        "question",
        "should",
        "slowly",
        "smaller",
        "so",
        "solution",
        "start",
        "step",
        "steps",
        "sure",
        "systematically",
        "task",
        "that",
        "the",
        "them",
        "then",
        "this",
        "thoroughly",
        "through",
        "to",
        "together",
        "try",
        "us",
        "want",
        "we",
        "we'll",
        "we're",
        "will",
        "with",
        "work",
        "would",
        "your",
    }
)


def is_contentless(answer: str) -> bool:
    """Say whether a text is only punctuation, blanks, tags, openers or announcements of an answer to come."""
    if len(answer) > _MAX_CHARS:
        return not any(map(_counts, answer))
    text = _BLANKS.sub(" ", unicodedata.normalize("NFKC", _MACROS.sub(" ", _TAGS.sub(" ", answer))))
    if not any(map(_counts, text)):
        return True
    if any(_counts(char) and not char.isalnum() for char in text):
        return False
    pieces = [_WORDS.findall(piece) for piece in _PIECES.split(text.replace("\u2019", "'").casefold())]
    openers = [" ".join(word for word, _ in groupby(words)) in _OPENERS for words in pieces if words]
    is_announced = any(openers) or not _ANNOUNCES.isdisjoint(chain.from_iterable(pieces))
    return is_announced and all(
        is_opener or _BESIDE.issuperset(words)
        for words, is_opener in zip(filter(None, pieces), openers, strict=True)
    )


def says_nothing(answer: str, reference: str) -> bool:
    """Say whether an answer is without content.

    An answer that holds a reference without content, such as an operator or an emoji, does say something. An empty
    reference stands for none.
    """
    is_such = bool(reference) and is_contentless(reference)
    return is_contentless(answer) and not (is_such and reference.casefold() in answer.casefold())


def _counts(char: str) -> bool:
    """Say whether a character may be an answer: letters, digits, and symbols beyond ASCII such as that of infinity."""
    category = unicodedata.category(char)
    return category[0] in "LN" or (category in {"Sm", "Sc"} and not char.isascii())
