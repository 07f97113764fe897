r"""Answers to LiveBench's questions, each with its reference and what it deserves.

A question is a task, its reference and its prompt where the rule reads it. A row of HONEST is a question and a whole
text worth 1; of WRONG the same with its value; of MEASURED also what LiveBench's graders of commit b0fb577 were
measured to give, which are Reasoning360's but for tablereformat, and why ours differs where it does; of ATTACKS what it
tries, for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.text_tables import paired


class Asked(NamedTuple):
    task: str
    value: str
    prompt: str | None = None


def convert(source: str, target: str, value: str) -> Asked:
    return Asked(
        "tablereformat",
        value,
        f"Please convert the Input Table from {source} format to {target} format. "
        "Please respond only with the table. \n Input Table:\n ... \n Output:\n",
    )


LIES = Asked("web_of_lies_v2", "yes, no, yes")
LIES_3 = Asked("web_of_lies_v3", "no, yes, unknown")
HOUSES = Asked("house_traversal", "Jackie Bob Denise")
CUTS = Asked("spatial", "6")
SHAPE = Asked("spatial", "triangle")
SOLIDS = Asked("spatial", "tetrahedra")
SEAT = Asked("zebra_puzzle", "three")
MOVIE = Asked("zebra_puzzle", "comedy movies")
LINE = Asked("zebra_puzzle", "2, jet-ski, filmmaking, punk")
COLUMN = Asked("cta", "postal code")
CITY = Asked("cta", "City")
JOIN = Asked("tablejoin", "{'name': 'full_name', \"driver's id\": 'id', 'born': 'dob', 'team': 'club'}")
PAIR = Asked("tablejoin", '{"a": "x", "b": "y"}')
FISH = Asked("connections", "bass,flounder,salmon,trout,ant,drill,island,opal")
SIXTEEN = Asked("connections", "red,blue,green,pink, cat,dog,cow,pig, one,two,six,ten, oak,elm,ash,fir")
TYPOS = Asked(
    "typos", "We introduce a Bayesian approach, and test it on 3 data sets: it works.\nThe code is public."
)
PLOT = Asked(
    "plot_unscrambling",
    "Ann inherits a farm. She meets Dr. Bell, who wants to buy it. They argue for weeks. A storm destroys the "
    "barn. Bell helps to rebuild it.",
    "The following plot summary of a movie has had the sentences randomly reordered. Rewrite the plot summary "
    "with the sentences correctly ordered. Begin the plot summary with <PLOT_SUMMARY>.\n\nThe plot summary is "
    "as follows:\n\nThey argue for weeks. Bell helps to rebuild it. Ann inherits a farm. A storm destroys the "
    "barn. She meets Dr. Bell, who wants to buy it.",
)
SHORT_PLOT = Asked("plot_unscrambling", "Ann wakes. Bob leaves. Cat sleeps.")
CSV = convert("JSON", "CSV", 'name,score,note\nAnn,1.5,"a, b"\nBob,2,\n')
TSV = convert("HTML", "TSV", "name\tscore\nAnn\t1.50\nBob\t2.0")
JSON = convert(
    "JSONL", "JSON", '{"14":{"name":"Ann","score":2.4,"ok":true},"1541":{"name":"Bob","score":3.0,"ok":null}}'
)
JSONL = convert("CSV", "JSONL", '{"name":"Ann","score":2.4}\n{"name":"Bob","score":null}\n')
HTML = convert(
    "TSV",
    "HTML",
    '<table border="1" class="dataframe">\n  <thead>\n    <tr style="text-align: right;">\n      '
    "<th>name</th>\n      <th>score</th>\n    </tr>\n  </thead>\n  <tbody>\n    <tr>\n      "
    "<td>Ann &amp; Bo</td>\n      <td>7</td>\n    </tr>\n  </tbody>\n</table>",
)
MARKDOWN = convert(
    "CSV",
    "markdown",
    "|    | name   |   score |\n|---:|:-------|--------:|\n|  0 | Ann    |     1.5 |\n"
    "|  1 | Bob    |     2   |",
)
NEWER = Asked(
    "tablereformat", "a,b\n1,2", "Convert the table.\nSource Format: JSON\nTarget Format: CSV\nTable: ..."
)

_ASKED = {name: asked for name, asked in globals().items() if isinstance(asked, Asked)}
QUESTIONS = list(_ASKED.values())


def as_asked(question: Asked) -> str:
    """Return the reference in the words of an answer that does what the task's prompt asks for."""
    task, value, _ = question
    if task == "zebra_puzzle" and "," not in value:
        return f"They sit in a row. The answer is ***{value}***"
    if task in {"web_of_lies_v3", "zebra_puzzle"}:
        return f"So it must be so.\n\n<solution>{value}</solution>"
    if task in {"web_of_lies_v2", "house_traversal", "spatial", "connections"}:
        return f"Step by step, it follows.\n\n**{value}**"
    return f"<PLOT_SUMMARY>\n{value}" if task == "plot_unscrambling" else value


HONEST: list[tuple[Asked, str]] = [
    *(
        (_ASKED[name], text)
        for name, text in paired(r"""
LIES <== **yes, no, yes** ¦ <think>**no, no, no**</think>**Yes, No, Yes**.
LIES <== 1. **Ann** lies.⏎2. **Bo** says so.⏎⏎**yes**, **no**, **yes** ¦ **Final Answer:** yes, no, yes
LIES <== **Final answer**: **yes, no, yes** ¦ The answer is \boxed{\textbf{yes, no, yes}}
LIES <== **Answer: yes, no, yes** ¦ **no, no, no**, or better <solution>yes, no, yes</solution>
LIES <== 2**3 is 8, and so⏎⏎**yes, no, yes**<|im_end|> ¦ **Answer**⏎⏎$\boxed{yes, no, yes}$
LIES_3 <== <solution>no, yes, unknown</solution> ¦ \boxed{\text{no, yes, unknown}}
HOUSES <== **Jackie, Bob, Denise** ¦ **Jackie** , **Bob**, and **Denise** ¦ **jackie -> bob -> denise**
HOUSES <== \boxed{\text{Jackie, then Bob, then Denise}} ;; SOLIDS <== **two regular tetrahedra**
CUTS <== **6** ¦ **six** ¦ $\boxed{6}$ ¦ **Step 1:** cut.⏎**Answer: 6**
SHAPE <== **an equilateral triangle** ¦ ***Triangle*** ;; SEAT <== ***3*** ¦ **3** ¦ ***Three***
MOVIE <== ***comedy*** ¦ ***Comedy Movies*** ;; LINE <== \boxed{\text{position 2, jet-ski, filmmaking, punk}}
LINE <== <solution>2, jet ski, filmmaking, punk</solution> ¦ <solution>Two,jet-ski,Filmmaking,Punk</solution>
COLUMN <== Postal Code ¦ postal-code. ¦ \boxed{\text{postal code}} ¦ The class is: postal code
COLUMN <== The column class is postal code. ¦ It has five digits.⏎⏎**postal_code**
JOIN <== {'name': 'full_name', "driver's id": 'id', 'born': 'dob', 'team': 'club', 'age': None}
PAIR <== ```json⏎{"b": "y", "a": "x", "c": null}⏎``` ¦ \boxed{\{'a': 'x', 'b': 'y'\}}
PAIR <== <solution>{'a': 'x', 'b': 'y'}</solution> ¦ ```python⏎join_map = {'a': 'x', 'b': 'y'}⏎```
FISH <== **Bass, flounder, salmon, trout, ant, drill, island, opal**
FISH <== **opal, drill, ant, island, trout, bass, salmon,⏎flounder**
FISH <== \boxed{bass, flounder, salmon, trout, ant, drill, island, opal}
FISH <== <solution>ant, opal, drill, island, trout, bass, flounder, salmon</solution>
FISH <== There are two groups.⏎⏎**ant, drill, island, opal, bass, flounder, salmon, trout**
SIXTEEN <== **red, blue, green, pink, cat, dog, cow, pig, one, two, six, ten, oak, elm, ash, fir**
SIXTEEN <== <solution>one, six, ten, two, oak, fir, ash, elm, cat, cow, dog, pig, red, pink,blue,green</solution>
TYPOS <== We introduce a Bayesian approach, and test it on 3 data sets: it works. The code is public.
TYPOS <== We introduce a Bayesian approach,⏎and test it on 3 data sets:⏎it works.⏎⏎The code is public.
SHORT_PLOT <== <PLOT_SUMMARY>⏎Ann wakes. Bob leaves. Cat sleeps.
SHORT_PLOT <== <PLOT_SUMMARY> Ann wakes.⏎⏎Bob leaves.⏎⏎Cat sleeps.⏎</PLOT_SUMMARY>
CSV <== score,name,note⏎1.5,Ann,"a, b"⏎2.0,Bob, ¦ ```csv⏎name,score,note⏎Ann,1.50,"a, b"⏎Bob,2,NaN⏎```
TSV <== Here is the table in TSV format:⏎⏎name\u0009score⏎Ann\u00091.5⏎Bob\u00092
TSV <== ```⏎name\u0009score⏎Ann\u00091.5⏎Bob\u00092⏎```
TSV <== \u0009name\u0009score⏎0\u0009Ann\u00091.5⏎1\u0009Bob\u00092⏎
JSON <== [{"name": "Ann", "score": 2.4, "ok": true}, {"name": "Bob", "score": 3}]
JSONL <== {"score": 2.4, "name": "Ann"}⏎{"name": "Bob", "score": null}
JSONL <== ```jsonl⏎{"name": "Ann", "score": 2.4}⏎⏎{"name": "Bob"}⏎```
HTML <== <TABLE><THEAD><TR><TH>score<TH>name<TBODY><TR><TD>7<TD>Ann&nbsp;&amp;<br>Bo</TABLE>
MARKDOWN <== | name | score |⏎|---|---|⏎| Ann | 1.5 |⏎| Bob | 2 |
MARKDOWN <== Sure! Here it is:⏎⏎name | score⏎:--- | ---:⏎Ann | 1.50⏎Bob | 2.0⏎
NEWER <== a,b⏎1,2 ¦ <solution>⏎a,b⏎1.0,2.0⏎</solution>
""")
    ),
    (
        JOIN,
        (
            'Here is the mapping:\n```python\n{\n  "name": "full_name",\n  "driver\'s id": "id",\n  "born": "dob",\n  '
            '"team": "club",\n}\n```\nEvery column is used once.'
        ),
    ),
    (TYPOS, f"Here is the corrected text:\n\n{TYPOS.value}"),
    (TYPOS, f"<solution>{TYPOS.value}</solution>"),
    (TYPOS, f"```\n{TYPOS.value}\n```"),
    (TYPOS, f"Here it is:\n```text\n{TYPOS.value}\n```\nTwo words were wrong."),
    (TYPOS, f"<think>inctroduce</think>\n{TYPOS.value}"),
    (TYPOS, f"Corrected text:\n\n{TYPOS.value}"),
    (PLOT, f"<think>the barn comes last</think><PLOT_SUMMARY>{PLOT.value}<|im_end|>"),
    (PLOT, f"Let me see.\n<PLOT_SUMMARY>\n{PLOT.value}\n</PLOT_SUMMARY>\nThat is all. I hope it helps."),
    (
        PLOT,
        (
            "<PLOT_SUMMARY> ann inherits a farm.\n\nShe meets Dr. Bell who wants to buy it. They argue for weeks. A "
            "storm destroys the barn. Bell helps to rebuild it.\n\n**End of Plot Summary**"
        ),
    ),
    (
        JSON,
        (
            '```json\n{"0": {"ok": true, "name": "Ann", "score": "2.40"},\n '
            '"1": {"name": "Bob", "score": 3, "ok": null}}\n```'
        ),
    ),
    (
        HTML,
        (
            "```html\n<table><tr><th>name</th><th>score</th></tr>\n<tr><td><b>Ann</b> &amp; Bo</td><td>7.0</td></tr>"
            "</table>\n```"
        ),
    ),
]

WRONG: list[tuple[Asked, str, float]] = [
    *(
        (_ASKED[name], text, 0)
        for name, text in paired(r"""
LIES <== **yes, no, no** ¦ **no, no, yes** ¦ **yes, no** ¦ **yes, no, yes, yes** ¦ yes, no, yes
LIES <== **yes, no, maybe** ¦ **yes, no, yes**⏎⏎**No, wait: yes, yes, yes** ;; SOLIDS <== **tetrahedron**
LIES <== **Answer:** yes⏎**yes, yes, yes** ;; CUTS <== **7** ¦ **16** ¦ **about 6** ;; MOVIE <== ***horror***
LIES_3 <== <solution>yes, no, yes</solution> ¦ <solution>no, yes</solution> ;; TYPOS <== The code is public.
HOUSES <== **Bob, Jackie, Denise** ¦ **Jackie, Bob** ¦ Jackie, Bob, Denise
SHAPE <== **square** ¦ **tetrahedron** ¦ **not a triangle** ;; SIXTEEN <== **red, blue, green, pink**
SEAT <== ***2*** ¦ **three or two** ¦ So it is three ;; COLUMN <== city ¦ code ¦ postal code or city ¦ post
LINE <== <solution>jet-ski, 2, punk, filmmaking</solution> ;; CSV <== name,score,note⏎Ann,1.5,a, b⏎Bob,2,
PAIR <== {'a': 'y', 'b': 'x'} ¦ a: x, b: y ¦ {'a': None} ¦ ['a', 'x']
FISH <== **bass, flounder, salmon, ant, trout, drill, island, opal** ¦ **bass, flounder, salmon, trout**
FISH <== bass, flounder, salmon, trout, ant, drill, island, opal
FISH <== **ant, bass, drill, flounder, island, opal, salmon, trout**
TYPOS <== We introduce a Bayesian approach, and test it on 3 datasets: it works. The code is public.
TYPOS <== We inctroduce a Bayesian approach, and test it on 3 data sets: it works. The code is public.
TYPOS <== We introduce a Bayesian approach and test it on 3 data sets: it works. The code is public.
TYPOS <== we introduce a Bayesian approach, and test it on 3 data sets: it works. The code is public.
SHORT_PLOT <== Ann wakes. Bob leaves. Cat sleeps. ¦ <PLOT_SUMMARY>
CSV <== name,score,note⏎Ann,1.5,"a, b" ¦ name,score,note⏎Bob,2,⏎Ann,1.5,"a, b" ¦ name,score⏎Ann,1.5⏎Bob,2
CSV <== [{"name": "Ann", "score": 1.5, "note": "a, b"}, {"name": "Bob", "score": 2}]
TSV <== name,score⏎Ann,1.5⏎Bob,2 ¦ name\u0009score⏎Ann\u00091.51⏎Bob\u00092
JSON <== [{"name": "Ann", "score": 2.4, "ok": false}, {"name": "Bob", "score": 3}]
JSON <== {"name": "Ann", "score": 2.4, "ok": true}⏎{"name": "Bob", "score": 3}
JSONL <== [{"name": "Ann", "score": 2.4}, {"name": "Bob", "score": null}]
HTML <== <table><tr><th>name</th><th>score</th></tr><tr><td>Ann</td><td>7</td></tr></table>
HTML <== <p>name score</p><p>Ann &amp; Bo 7</p> ;; MARKDOWN <== | name | score |⏎| Ann | 1.5 |⏎| Bob | 2 |
MARKDOWN <== | name | points |⏎|---|---|⏎| Ann | 1.5 |⏎| Bob | 2 |
""")
    ),
    (LIES_3, "<solution>no, yes, no</solution>", 1 / 3),
    (LINE, "<solution>2, jet-ski, filmmaking, rock</solution>", 3 / 8),
    (PAIR, "{'a': 'x'}", 2 / 3),
    (PAIR, "{'a': 'x', 'b': 'y', 'c': 'z'}", 4 / 5),
    (
        SIXTEEN,
        "<solution>red,blue,green,pink,cat,dog,cow,oak,one,two,six,ten,pig,elm,ash,fir</solution>",
        0.5,
    ),
    (
        SIXTEEN,
        "<solution>red,blue,cat,dog,green,pink,cow,pig,one,two,six,ten,oak,elm,ash,fir</solution>",
        0.5,
    ),
    (PLOT, PLOT.value, 0),
    (SHORT_PLOT, "<PLOT_SUMMARY> Bob leaves. Ann wakes. Cat sleeps.", 1 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Cat sleeps. Ann wakes. Bob leaves.", 1 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Cat sleeps. Bob leaves. Ann wakes.", 1 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Ann wakes. Bob leaves.", 2 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Ann wakes. A dog barks. Bob leaves. Cat sleeps.", 2 / 3),
]


class Measured(NamedTuple):
    question: Asked
    text: str
    old: float
    strict: float
    remark: str = ""


FIT_ONE = "an answer that holds several is none"
LAST_ONE = "the last that is marked is the answer"
MEASURED = [
    Measured(CITY, "\\boxed{\\text{city}}", 1, 1),
    Measured(CITY, "It can't be a city", 1, 0, "a text that ends in the class does not name it"),
    Measured(PAIR, "{'a': 'x', 'b': 'z'}", 0.5, 0.5),
    Measured(LIES, "**yes, no, yes**", 1, 1),
    Measured(LIES_3, "<solution>no, yes, no</solution>", 1 / 3, 1 / 3),
    Measured(LIES_3, "<solution>no, no, no</solution>", 1 / 6, 1 / 6),
    Measured(LIES, "yes, no, yes", 1, 0, "the prompt asks for bold words"),
    Measured(SEAT, "***3***", 1, 1),
    Measured(SEAT, "I say three", 1, 0, "the prompt asks for bold words"),
    Measured(SHORT_PLOT, "<PLOT_SUMMARY>Cat sleeps. Ann wakes. Bob leaves.", 1 / 3, 1 / 3),
    Measured(
        SHORT_PLOT,
        "<PLOT_SUMMARY>Ann wakes. A dog barks. Bob leaves. Cat sleeps.",
        1 / 3,
        2 / 3,
        "a sentence too many is one edit, and moves no other",
    ),
    Measured(
        SHORT_PLOT, "I don't know", 1 / 3, 0, "a sentence that is like none of the plot's is in no place"
    ),
    Measured(Asked("connections", "a,b,c,d,e,f,g,h"), "**a, b, c, d, e, f, g, x**", 0.5, 0.5),
    Measured(FISH, "**bass,flounder,salmon,trout** **ant,drill,island,opal**", 0.5, 0, LAST_ONE),
    Measured(FISH, "**bass,flounder,salmon,trout,ant,drill,island,opal** **ant,bass**", 1, 0, LAST_ONE),
    Measured(TYPOS, f"Or not: {' '.join(TYPOS.value.split())}", 0, 0),
    Measured(Asked("typos", "It works."), "It wroks. It works. It woks.", 1, 0, FIT_ONE),
    Measured(CSV, CSV.value, 0, 1, "Reasoning360 has no rule for tablereformat"),
    Measured(CUTS, "**6** or **7** or **8**", 1, 0, LAST_ONE),
    Measured(SHAPE, "**square or triangle**", 1, 0, FIT_ONE),
    Measured(
        LINE, "<solution>1 2 3, jet-ski or car, filmmaking or art, punk or rock</solution>", 1, 0, FIT_ONE
    ),
]

EVERY_LIE = " ".join(
    f"**{a}, {b}, {c}**" for a in ("yes", "no") for b in ("yes", "no") for c in ("no", "yes")
)
ATTACKS: list[tuple[Asked, str, str]] = [
    (LIES, f"{EVERY_LIE} **no, no, no**", "every answer in bold"),
    (LIES, "<think>**yes, no, yes**", "an unfinished thought"),
    (LIES, "<think>a</think>**yes, no, yes**<think>", "a thought begun anew"),
    (LIES, "**yes, no, yes** \\boxed{no, no", "cut off while it stated another"),
    (LIES, "**yes, no, yes** <solution></solution>", "an empty solution"),
    (LIES, "**yes no yes, yes no no, no no yes**", "several in one list"),
    (PAIR, '{"a": "y", "a": "x", "b": "y"}', "a column twice"),
    (PAIR, "a = 1; b = {'a': 'x', 'b': 'y'}", "a program"),
    (HOUSES, "**Jackie Bob Denise Bob Jackie Denise Jackie**", "every order in one list"),
    (HOUSES, "**Al, Jackie, Bob, Denise, Al**", "the names among others"),
    (CUTS, "**0 1 2 3 4 5 6 7 8 9**", "every number"),
    (SHAPE, "**square, circle, triangle**", "every shape"),
    (SHAPE, "**rectangle triangle**", "two shapes"),
    (SEAT, "***one two three***", "every seat"),
    (SEAT, "***1*** ***3*** ***2***", "every seat in bold"),
    (COLUMN, "city, name, postal code", "every class"),
    (COLUMN, "The class is not postal code", "a denial"),
    (CITY, "velocity", "a word that ends in the class"),
    (PAIR, "{'a': ['x', 'y'], 'b': ['x', 'y']}", "every pair"),
    (PAIR, "__import__('os').environ", "a program"),
    (PAIR, "{**{'a': 'x'}, 'b': open('/etc/passwd').read()}", "a program"),
    (PAIR, "{" * 200_000, "deep nesting"),
    (PAIR, "{'a': 'x' if True else 'z', 'b': 'y'}", "a program"),
    (
        FISH,
        "**" + ", ".join(["bass, flounder, salmon, trout, ant, drill, island, opal"] * 9) + "**",
        "nine lists",
    ),
    (FISH, "**" + ", ".join(["bass"] * 8) + "**", "one word for all"),
    (TYPOS, f"{TYPOS.value} {TYPOS.value}", "the text twice"),
    (TYPOS, f"{TYPOS.value}\n\nDone!", "a text around it"),
    (PLOT, f"<PLOT_SUMMARY>\n{(PLOT.prompt or '').rpartition('follows:')[2]}", "the order of the prompt"),
    (PLOT, PLOT.prompt or "", "the prompt"),
    (PLOT, f"<PLOT_SUMMARY> {PLOT.value * 3}", "the plot thrice"),
    (SHORT_PLOT, "<PLOT_SUMMARY> I don't know. Sorry.", "sentences of its own"),
    (
        SHORT_PLOT,
        "<PLOT_SUMMARY> Ann wakes. Bob leaves. Cat sleeps. <PLOT_SUMMARY> No.",
        "takes the plot back",
    ),
    (SHORT_PLOT, "<PLOT_SUMMARY> " + "Ann wakes. Bob leaves. Cat sleeps. " * 50_000, "every order"),
    (CSV, "/etc/passwd", "a path"),
    (CSV, "https://example.com/table.csv", "an address"),
    (CSV, CSV.prompt or "", "the prompt"),
    (CSV, f"{CSV.value}\n{CSV.value}", "the table twice"),
    (JSON, "[" * 100_000, "deep nesting"),
    (JSON, "9" * 10_000, "a number of 10,000 digits"),
    (JSON, "{}", "nothing"),
    (JSON, '{"a": {"data": []}}', "a table of nothing"),
    (JSON, "[{}, {}]", "rows of nothing"),
    (HTML, HTML.value * 2, "two tables"),
    (HTML, "<table><tr><td>&#" + "9" * 5_000 + ";</td></tr></table>", "a number"),
    (HTML, HTML.value.replace("<td>7", '<td colspan="1000000000">7'), "a cell of a billion"),
    (MARKDOWN, "|" * 199_000 + "\n" + "-" * 900, "cells of nothing"),
]
