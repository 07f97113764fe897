"""Instructions: each with right and wrong responses, rows of every shape, attacks, and time."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from broker.errors import BadMessage
from broker.messages import ScoreStatus
from config.scorer_kinds import InstructionsConfig
from config.scorers import ScorersConfig
from scorers.instructions.catalogue import INSTRUCTIONS, checks_of
from scorers.instructions.scorer import InstructionFollowing
from scorers.text.extract import MAX_RESPONSE_CHARS
from tasks.route import route
from tests.scorers.instructions.corpus import ATTACKS, CASES, LANGUAGES, NULL_RESPONSES, PROMPT
from tests.support.growth import is_linear
from tests.support.text_tables import listed

SCORER = InstructionFollowing(InstructionsConfig(), ScorersConfig())
# One of IFBench's rows, as it is in the data.
IFBENCH = (
    "[{'instruction_id': ['length_constraints:number_paragraphs', 'letters:letter_counting2', "
    "'keywords:word_once'], 'kwargs': [{'num_paragraphs': 2}, {'letter': 's', 'let_frequency': 3, "
    "'let_relation': 'at least'}, {'keyword': 'flight'}]}]"
)
ODD: tuple[Any, ...] = (None, {}, True, -1, 0.5, math.nan, math.inf, " ", [])  # null is what is not there
IFEVAL_KEYS = listed(r"num_highlights¦relation¦num_words¦capital_frequency¦end_phrase¦keywords¦letter")


def row(*instructions: tuple[str, dict[str, Any] | None], prompt: str | None = None) -> dict[str, Any]:
    answer = {
        "instruction_id_list": [name for name, _ in instructions],
        "kwargs": [kwargs for _, kwargs in instructions],
    }
    return {"type": "ifeval", "answer": answer if prompt is None else {**answer, "prompt": prompt}}


def test_every_instruction_tells_right_from_wrong() -> None:
    assert CASES.keys() == INSTRUCTIONS.keys()
    failed = []
    for name, case in CASES.items():
        (check,) = checks_of([name], [case.kwargs]).values()
        failed += [
            f"{name}: {text!r} is right: {fault}" for text in case.right if (fault := check(text)) is not None
        ]
        failed += [f"{name}: {text!r} is wrong" for text in case.wrong if check(text) is None]
    assert not failed, "\n".join(failed)


def test_a_right_response_scores_1_and_a_wrong_one_0_with_what_is_wrong() -> None:
    info = row(
        ("punctuation:no_comma", {}),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}),
    )
    right = SCORER.score("<think>so, well</think>a b c d", info)
    assert right.value == 1.0
    assert right.components == {"punctuation:no_comma": 1.0, "length_constraints:number_words": 1.0}
    wrong = SCORER.score("a, b", info)
    assert wrong.value == 0.0
    assert wrong.reason == (
        "0 of 2 instructions hold; punctuation:no_comma: it has a comma; "
        "length_constraints:number_words: 2 words, not at least 3"
    )


def test_a_part_of_the_instructions_is_worth_what_the_config_says(subtests: pytest.Subtests) -> None:
    for credit, value in ((None, 0.0), ("all", 0.0), ("fraction", 0.5)):
        with subtests.test(credit=credit):
            scorer = InstructionFollowing(InstructionsConfig(), ScorersConfig(credit=credit))
            info = row(("punctuation:no_comma", {}), ("keywords:word_once", {"keyword": "flight"}))
            assert scorer.score("no such word", info).value == value
            assert scorer.score("a flight", info).value == 1.0
            assert scorer.score("", info).value == 0.0


def test_the_same_instruction_twice_is_two_components() -> None:
    info = row(
        *(("keywords:frequency", {"keyword": word, "frequency": 1, "relation": "at least"}) for word in "abc")
    )
    assert SCORER.score("b and a", info).components == {
        "keywords:frequency": 1.0,
        "keywords:frequency#2": 1.0,
        "keywords:frequency#3": 0.0,
    }


def test_nothing_scores_nothing_whatever_the_instruction() -> None:
    paid = [
        (name, text)
        for name, case in CASES.items()
        for text in NULL_RESPONSES
        if SCORER.score(text, row((name, case.kwargs))).value != 0.0
    ]
    assert not paid


def test_attacks_score_nothing() -> None:
    paid = [why for instructions, text, why in ATTACKS if SCORER.score(text, row(*instructions)).value != 0.0]
    assert not paid


def test_the_prompt_again_is_no_response() -> None:
    info = row(("punctuation:no_comma", {}), prompt=PROMPT)
    assert SCORER.score(PROMPT.upper(), info).value == 0.0
    assert SCORER.score(f"{PROMPT} There once was a cat", info).value == 1.0
    repeated = row(("copy:copying_simple", {"prompt_to_repeat": PROMPT}), prompt=PROMPT)
    assert SCORER.score(PROMPT, repeated).value == 1.0


def test_a_giant_response_scores_0_unread() -> None:
    score = SCORER.score("a" * (MAX_RESPONSE_CHARS + 1), row(("punctuation:no_comma", {})))
    assert score.value == 0.0
    assert score.reason == "no response: a response of 1000001 characters; 1000000 is the limit"


def test_a_row_of_ifbench_has_its_instructions_in_its_value(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        IFBENCH,
        json.dumps([json.dumps({"instruction_id": ["punctuation:no_comma"], "kwargs": [None]})]),
        [{"instruction_id": ["punctuation:no_comma"], "kwargs": [None]}],
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"keyword": None}]},
    ]
    for value in cases:
        with subtests.test(value=value):
            for answer in ({"value": value}, value):
                task, info = route({"verification_info": {"type": "ifbench", "answer": answer}})
                assert task == "instructions"
                assert SCORER.score("yes it is so\n***\na flight is less", info).value == 1.0
                assert SCORER.score("yes, it is so", info).value == 0.0


def test_rows_of_reasoning360_are_read_as_they_are() -> None:
    kwargs = [
        {**dict.fromkeys(IFEVAL_KEYS), "num_words": 3.0, "relation": "at least"},
        dict.fromkeys(IFEVAL_KEYS),
    ]
    ids = ["length_constraints:number_words", "punctuation:no_comma"]
    ifeval = {
        "data_source": "ood__ifeval",
        "reward_model": {"style": "rule", "ground_truth": kwargs},
        "extra_info": {"instruction_id_list": ids, "prompt": "Say something."},
    }
    task, info = route(ifeval)
    assert (task, info["type"]) == ("instructions", "ifeval")
    texts = ("a b c d", "a b", "a, b, c", "Say something.")
    assert [SCORER.score(text, info).value for text in texts] == [1, 0, 0, 0]
    ifbench = {"data_source": "ood__ifbench", "reward_model": {"ground_truth": IFBENCH}, "extra_info": None}
    assert route({**ifbench, "prompt": [{"role": "user", "content": PROMPT}]}) == (
        "instructions",
        {"type": "ifbench", "answer": {"value": IFBENCH, "prompt": PROMPT}},
    )
    assert SCORER.score("yes it is so\n***\na flight is less", route(ifbench)[1]).value == 1.0
    with pytest.raises(BadMessage, match="rows of IFEval need extra_info"):
        route({**ifeval, "extra_info": None})


def told(ids: Any, *kwargs: Any) -> dict[str, Any]:
    return {"instruction_id_list": ids, "kwargs": list(kwargs)}


def test_a_broken_row_is_refused_by_what_it_lacks(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        (told([]), "at least one instruction; it has 0 instructions and 0 kwargs"),
        (told(["punctuation:no_comma"]), "has 1 instructions and 0 kwargs"),
        (told("punctuation:no_comma", {}), "needs a list for instruction_id_list, got 'punct"),
        ({"instruction_id_list": ["punctuation:no_comma"]}, "needs a list for kwargs, got None"),
        (told(["punctuation:no_comas"], {}), "did you mean punctuation:no_comma?"),
        (told([3], {}), "unknown instruction 3"),
        (told([10**5_000], {}), "unknown instruction int too large to be shown"),
        (told(["punctuation:no_comma"], "x"), "must be an object or null, got 'x'"),
        ({"value": "[]"}, "a list of one object for value, got 0"),
        ({"value": "[{}, {}]"}, "got 2"),
        ({"value": "[{'instruction_id': [], 'kwargs': []}]"}, "at least one instruction"),
        ({"value": "[{'a': f()}]"}, "no JSON and no Python literal: ValueError"),
        ({"value": "[" * 10_000}, "no JSON and no"),
        ({"value": "{nope"}, "no JSON and no Python literal: SyntaxError"),
        ({"value": 3}, "instruction_id and kwargs in its"),
        (None, "an object for answer, got None"),
    ]
    for answer, message in cases:
        with subtests.test(answer=answer), pytest.raises(BadMessage, match=message):
            SCORER.check_row({"type": "ifeval", "answer": answer})


def test_a_missing_or_odd_argument_is_refused_by_its_name() -> None:
    """Others draw one at random instead."""
    silent: list[Any] = []
    for name, case in CASES.items():
        whole = case.kwargs or {}
        for key in whole:
            for odd in ODD:
                kwargs = {**whole, key: odd}
                try:
                    SCORER.check_row(row((name, kwargs)))
                except BadMessage as error:
                    if name in str(error) and key in str(error):
                        continue
                silent.append((name, key, odd))
    assert not silent


def test_an_argument_that_nobody_can_check_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("keywords:letter_frequency", {"letter": "ab"}, "one letter"),
        ("keywords:frequency", {"relation": "around"}, "'at least' or 'less than' for relation"),
        ("language:response_language", {"language": "tlh"}, "one of af, ar, .*got 'tlh'"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"nth_paragraph": 3},
            "one of 2 paragraphs for nth_paragraph, got 3",
        ),
        ("copy:repeat_phrase", {"phrase": "two words"}, "three words or more"),
        (
            "new:copy_span_idx",
            {"prompt_to_repeat": "short", "n_start": 9, "n_end": 12},
            "a place before n_end",
        ),
    ]
    for name, changes, message in cases:
        with subtests.test(name=name, changes=changes), pytest.raises(BadMessage, match=message):
            SCORER.check_row(row((name, {**(CASES[name].kwargs or {}), **changes})))


def test_the_language_of_a_giant_text_is_not_told() -> None:
    score = SCORER.score(
        "A cat sat on the mat. " * 10_000, row(("language:response_language", {"language": "en"}))
    )
    assert (score.value, "220000 characters; the language of at most 200000" in score.reason) == (0.0, True)


@pytest.mark.process
def test_hostile_texts_take_linear_time() -> None:
    """The language is the library's time."""
    pieces = ("*", "[", "Section 1", "1. ", "a-", "P.", "Time ")
    for name, case in CASES.items():
        if name.startswith(("language:", "change_case:english")):
            continue
        (check,) = checks_of([name], [case.kwargs]).values()
        for piece in pieces:
            assert is_linear(check, piece.__mul__, 8_000 // len(piece)), (name, piece)


def test_every_language_that_rows_ask_for_is_told_from_all_others() -> None:
    told = {}
    for code, sentence in LANGUAGES.items():
        (check,) = checks_of(["language:response_language"], [{"language": code}]).values()
        told[code] = (
            [other for other in LANGUAGES if check(LANGUAGES[other]) is None]
            if code in {"en", "hi"}
            else ([code] if check(sentence) is None else [])
        )
    assert told == {code: [code] for code in LANGUAGES}


ENGLISH_FEW = listed(r"""
THE GREAT GATSBY, MOBY DICK, WAR AND PEACE¦JAWS, ALIEN, ROCKY¦1984. DUNE. EMMA.¦CASABLANCA, VERTIGO, PSYCHO
PSYCHO, REBECCA, NOTORIOUS¦ANNA KARENINA, DON QUIXOTE, LOLITA¦TOY STORY⏎FROZEN⏎MOANA¦DIE HARD, ROCKY, JAWS
AM\u00c9LIE, ROMA, PARASITE¦SAN FRANCISCO, LOS ANGELES, SAN DIEGO¦PARIS, LONDON, ROME¦KIWI, MANGO, PAPAYA
LA LA LAND¦HELLO¦GOOD MORNING¦YES¦NO¦STOP¦I AM¦OK!¦42 CATS¦BUY NOW
""")
OTHERS_FEW = listed(r"""
DIE KATZE IST AUF DEM TISCH¦LE CHAT EST NOIR¦EL GATO NEGRO¦DAS BOOT¦BONJOUR¦HOLA AMIGO¦GUTEN TAG
JE NE SAIS PAS¦IL GATTO NERO¦BUENOS DIAS¦DANKE SCH\u00d6N¦C'EST LA VIE
WATOTO WANACHEZA MPIRA UWANJANI KILA SIKU¦TACK S\u00c5 MYCKET¦\u042f \u0417\u0414\u0415\u0421\u042c
\u4f60\u597d¦12345
""")


def test_a_few_words_are_english_unless_something_shows_another_language() -> None:
    capital, lower, english = (
        checks_of([name], [kwargs])[name]
        for name, kwargs in (
            ("change_case:english_capital", {}),
            ("change_case:english_lowercase", {}),
            ("language:response_language", {"language": "en"}),
        )
    )
    assert {
        text: fault for text in ENGLISH_FEW if (fault := capital(text) or english(text)) is not None
    } == {}
    assert {text: fault for text in ENGLISH_FEW if (fault := lower(text.lower())) is not None} == {}
    assert [text for text in OTHERS_FEW if capital(text) is None or english(text) is None] == []
    assert [text for text in OTHERS_FEW if lower(text.lower()) is None] == []


def test_a_few_words_of_a_language_are_told_by_common_words(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("de", ("Guten Tag", "GUTEN TAG", "Ja.", "Nein, danke.", "Hallo Welt")),
        ("fr", ("Bonjour", "Oui", "MERCI BEAUCOUP", "Je ne sais pas.")),
        ("es", ("Hola", "Hola mundo", "No s\u00e9")),
        ("it", ("Ciao", "Grazie mille", "S\u00ec, certo")),
    ]
    english = ("HELLO", "Yes", "I am here.", "Thank you", "Good morning", "The cat sleeps", "What is it?")
    for language, right in cases:
        with subtests.test(language=language):
            (check,) = checks_of(["language:response_language"], [{"language": language}]).values()
            assert [text for text in right if check(text) is not None] == []
            assert [text for text in english if check(text) is None] == []


def test_the_language_of_a_long_text_is_told_piece_by_piece() -> None:
    """A larger part in the right language hides no other."""
    (check,) = checks_of(["language:response_language"], [{"language": "de"}]).values()
    german, english = (texts[0] for texts in CASES["language:response_language"][1:])
    assert check(f"{german}\n" * 60) is None
    assert check(f"{german}\n" * 60 + f"{english}\n" * 40) == "its language is en, not de"


def test_the_self_test_passes_and_nothing_is_left_to_close() -> None:
    SCORER.self_test()
    SCORER.close()
    assert SCORER.score("a b", row(("punctuation:no_comma", {}))).status is ScoreStatus.SCORED
