"""Answers to questions of Search-R1's sets, each with its row and what it deserves.

A row of HONEST and WRONG is the spellings that count and the content of an `<answer>`, of ATTACKS the spellings, a
whole text, and what it tries. MEASURED has what verl's scorer gives for a text, what it gets here, and why where they
differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.text_tables import paired

TOWER = ["The Eiffel Tower", "Tour Eiffel"]
DATE = ["14 July 1789"]

_NAMED = {"TOWER": TOWER, "DATE": DATE}


def _rows(table: str) -> list[tuple[Any, str]]:
    """Return rows whose reference is a name or the only spelling."""
    return [(_NAMED.get(reference, [reference]), content) for reference, content in paired(table)]


REFERENCES: list[tuple[str, dict[str, Any]]] = [
    *(("qa_em", {"value": TOWER}), ("qa_em", {"value": {"target": DATE}}), ("qa_em", {"value": "Paris"})),
    *(("qa_em", {"value": ["None"]}), ("qa_em", {"value": [1789]}), ("qa_em", {"value": ["I know"]})),
    ("qa_em", {"value": {"target": "pass"}}),
]

HONEST = [
    *_rows(r"""
TOWER <== The Eiffel Tower ¦ Eiffel Tower ¦ eiffel tower. ¦ "Tour Eiffel" ¦ tour eiffel ¦ an Eiffel Tower
DATE <== 14 July 1789 ¦ 14 July, 1789 ;; U.S. <== US ;; US <== U.S. ;; Beyonc\u00e9 <== beyonc\u00e9
1,000 <== 1000 ;; yes <== Yes. ;; A.B.C. <== ABC ;; Mary's <== Marys ;; The Beatles <== beatles
Lee (actor) <== lee actor ;; Catch-22 <== Catch22
"""),
    (["The Eiffel Tower", "Tour Eiffel"], "the  EIFFEL\ntower"),
    (["14 July 1789"], " 14 july 1789 "),
    *(({"target": ["14 July 1789"]}, "14 July 1789"), ({"target": "Bonn"}, "bonn"), ("Bonn", "Bonn!")),
    ([1789], "1789"),
]

WRONG = [
    *_rows(r"""
TOWER <== Tower ¦ Eiffel ¦ Eiffel Tower in Paris ¦ It is the Eiffel Tower ¦ tower of Eiffel ;; 5 <== five
TOWER <== Eiffel Tower or Louvre ¦ Eiffel Tower, Tour Eiffel ¦ Louvre ¦ Eiffeltower ;; yes <== no ¦ yes and no
DATE <== July 14, 1789 ¦ 1789 ¦ 14 July 1788 ¦ 14 July 17890 ;; 1000 <== 1000.5 ;; Beyonc\u00e9 <== Beyonce
Paris <== paris paris ¦ the ¦ . ;; Mary <== Marys ;; Anna B <== B Anna
""")
]

ATTACKS: list[tuple[Any, str, str]] = [
    (TOWER, "Eiffel Tower", "answers without a tag"),
    (TOWER, "<answer>Eiffel Tower", "never closes the tag"),
    (TOWER, "Eiffel Tower</answer>", "never opens it"),
    (TOWER, "<answer>Eiffel Tower</answer> <answer>Louvre</answer>", "takes its answer back"),
    (TOWER, "<answer>Eiffel Tower</answer> <answer></answer>", "empties the last tag"),
    (TOWER, "<think><answer>Eiffel Tower</answer>", "answers before it has thought"),
    (TOWER, "<think><answer>Eiffel Tower</answer></think>", "answers in its thoughts alone"),
    (TOWER, "<answer>Louvre, Eiffel Tower, Bastille</answer>", "offers several in one tag"),
    (TOWER, "<answer>Louvre</answer>" * 10 + "<answer>Eiffel Tower</answer>", "guesses tag by tag"),
    (TOWER, "</answer>" * 11 + "<answer>Eiffel Tower</answer>", "is made of closing tags"),
    (TOWER, "<answer>" * 100_000 + "Eiffel Tower", "is made of opening tags"),
    (TOWER, "<answer>" + "the " * 1000 + "Eiffel Tower</answer>", "is longer than any answer"),
    (TOWER, "<answer>Eiffel Tower</answer>" + "x" * 1_000_001, "is longer than any response"),
    (TOWER, "<answer>and</answer>, for instance <answer>Beijing</answer>", "echoes the prompt"),
]


class Measured(NamedTuple):
    value: Any
    text: str
    old: float
    ours: float
    remark: str = ""


MEASURED = [
    Measured(["Beijing"], "<answer> beijing </answer>", 1, 1),
    Measured(["Beijing"], "<answer>The Beijing.</answer>", 1, 1),
    Measured(["Beijing"], "<answer>Shanghai</answer>", 0, 0),
    Measured(["Beijing"], "Beijing", 0, 0),
    Measured(["Beijing"], "<answer>Beijing</answer>" * 11, 0.25, 0, "a swarm of answers is none"),
    Measured(["Beijing"], "<answer>Beijing</answer>" * 10, 1, 1),
    Measured(["Beijing"], "<think><answer>Beijing</answer>", 1, 0, "a thought that never ended is no answer"),
]

BROKEN: list[tuple[str, Any, str]] = [
    ("qa_em", {"value": None}, "needs an answer with a value"),
    ("qa_em", {"value": []}, "needs a list of texts"),
    ("qa_em", {"value": {"target": None}}, "needs a list of texts"),
    ("qa_em", {"value": {}}, "needs a list of texts"),
    ("qa_em", {"value": [None]}, "needs a list of texts"),
    ("qa_em", {"value": [["a"]]}, "needs a list of texts"),
    ("qa_em", {"value": True}, "needs a list of texts"),
]
