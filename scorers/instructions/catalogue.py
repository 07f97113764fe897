"""The table of all instructions: IFEval's 25, and the 29 that the training rows of IFBench add to them.

In: a row's ids and arguments. Out: its checks, in the row's order, by names of their own. The rows are
google/IFEval's and those of allenai/IF_multi_constraints_upto5, whose registry is open_instruct/IFEvalG of
allenai/open-instruct (commit e6c3044). `docs/scorer_rules.md` says where a check is stricter than theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker.errors import BadMessage
from scorers.instructions import copying, counts, edges, keywords, language, layout
from scorers.instructions.arguments import Arguments, Check
from scorers.text.invisible import seen
from tasks.values import hint, shown

INSTRUCTIONS: Final[Mapping[str, Callable[[Arguments], Check]]] = {
    # IFEval
    "change_case:capital_word_frequency": counts.capital_words,
    "change_case:english_capital": language.english_capital,
    "change_case:english_lowercase": language.english_lowercase,
    "combination:repeat_prompt": copying.repeat_prompt,
    "combination:two_responses": copying.two_responses,
    "detectable_content:number_placeholders": layout.placeholders,
    "detectable_content:postscript": edges.postscript,
    "detectable_format:constrained_response": layout.constrained_response,
    "detectable_format:json_format": layout.json_only,
    "detectable_format:multiple_sections": layout.sections,
    "detectable_format:number_bullet_lists": layout.bullets,
    "detectable_format:number_highlighted_sections": layout.highlights,
    "detectable_format:title": layout.title,
    "keywords:existence": keywords.existence,
    "keywords:forbidden_words": keywords.forbidden_words,
    "keywords:frequency": keywords.frequency,
    "keywords:letter_frequency": counts.letter_frequency,
    "language:response_language": language.response_language,
    "length_constraints:nth_paragraph_first_word": counts.nth_paragraph,
    "length_constraints:number_paragraphs": counts.number_paragraphs,
    "length_constraints:number_sentences": counts.number_sentences,
    "length_constraints:number_words": counts.number_words,
    "punctuation:no_comma": language.no_comma,
    "startend:end_checker": edges.end_phrase,
    "startend:quotation": edges.quotation,
    # IFBench's training rows
    "copy:copy": copying.copy,
    "copy:copying_multiple": copying.copy_times,
    "copy:copying_simple": copying.copy,
    "copy:repeat_phrase": copying.repeat_phrase,
    "count:count_increment_word": keywords.once_and_twice,
    "count:count_unique": counts.unique_words,
    "count:counting_composition": counts.composition,
    "count:lowercase_counting": counts.lowercase_words,
    "detectable_format:bigram_wrapping": layout.bigrams,
    "detectable_format:sentence_hyphens": layout.hyphenated_sentences,
    "detectable_format:square_brackets": layout.square_brackets,
    "first_word:first_word_answer": edges.first_word,
    "first_word:first_word_sent": edges.first_word_of_sentences,
    "keywords:exclude_word_harder": keywords.exclude_word,
    "keywords:keyword_specific_position": keywords.at_position,
    "keywords:no_adjacent_consecutive": edges.no_consecutive_initials,
    "keywords:palindrome": edges.palindrome,
    "keywords:start_end": edges.same_start_and_end,
    "keywords:word_count_different_numbers": keywords.frequency,
    "keywords:word_once": keywords.once,
    "last_word:last_word_answer": edges.last_word,
    "last_word:last_word_sent": edges.last_word_of_sentences,
    "letters:letter_counting": counts.letter_count,
    "letters:letter_counting2": counts.letter_frequency,
    "new:copy_span_idx": copying.copy_span,
    "paragraphs:paragraphs": counts.two_divided_paragraphs,
    "paragraphs:paragraphs2": counts.two_paragraphs,
    "punctuation:punctuation_dot": language.no_dot,
    "punctuation:punctuation_exclamation": language.no_exclamation,
}


def checks_of(ids: Sequence[Any], kwargs: Sequence[Any]) -> dict[str, Check]:
    """Return a check for each instruction, by its id; of one that is there again, by its id with `#2`, `#3`.

    Args:
        ids: names of INSTRUCTIONS.
        kwargs: for each an object or null; what is null in an object is not there.
    Raises:
        BadMessage: no instruction at all, an unknown one, or one without an argument that it needs.
    """
    if not ids or len(ids) != len(kwargs):
        raise BadMessage(
            f"a row of instructions needs one kwargs for each, and at least one instruction; it has "
            f"{len(ids)} instructions and {len(kwargs)} kwargs"
        )
    checks: dict[str, Check] = {}
    for name, values in zip(ids, kwargs, strict=True):
        if not isinstance(name, str) or name not in INSTRUCTIONS:
            near = hint(name, INSTRUCTIONS) if isinstance(name, str) else ""
            raise BadMessage(f"unknown instruction {shown(name)}{near}")
        if values is not None and not isinstance(values, Mapping):
            raise BadMessage(f"kwargs of instruction {name} must be an object or null, got {shown(values)}")
        arguments = Arguments(
            name, {key: value for key, value in (values or {}).items() if value is not None}
        )
        times = sum(known.partition("#")[0] == name for known in checks) + 1
        checks[name if times == 1 else f"{name}#{times}"] = _on_what_is_seen(INSTRUCTIONS[name](arguments))
    return checks


def _on_what_is_seen(check: Check) -> Check:
    """Return a check that looks at a response as its reader does: what has no width joins and parts nothing."""
    return lambda response: check(seen(response))
