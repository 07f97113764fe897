r"""Answers to LiveBench's questions, each with its reference and what it deserves.

A question is a task, its reference and its prompt where the rule reads it. A row of HONEST is a question and a whole
text worth 1; of WRONG the same with its value; of MEASURED also what LiveBench's graders of commit b0fb577 were
measured to give, which are Reasoning360's but for tablereformat, and why ours differs where it does; of ATTACKS what it
tries, for nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Asked(NamedTuple):
    """A row's question."""

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

QUESTIONS = [
    LIES,
    LIES_3,
    HOUSES,
    CUTS,
    SHAPE,
    SOLIDS,
    SEAT,
    MOVIE,
    LINE,
    COLUMN,
    CITY,
    JOIN,
    PAIR,
    FISH,
    SIXTEEN,
    TYPOS,
    PLOT,
    SHORT_PLOT,
    CSV,
    TSV,
    JSON,
    JSONL,
    HTML,
    MARKDOWN,
    NEWER,
]


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
    (LIES, "**yes, no, yes**"),
    (LIES, "<think>**no, no, no**</think>**Yes, No, Yes**."),
    (LIES, "1. **Ann** lies.\n2. **Bo** says so.\n\n**yes**, **no**, **yes**"),
    (LIES, "**Final Answer:** yes, no, yes"),
    (LIES, "**Final answer**: **yes, no, yes**"),
    (LIES, "The answer is \\boxed{\\textbf{yes, no, yes}}"),
    (LIES, "**Answer: yes, no, yes**"),
    (LIES, "**no, no, no**, or better <solution>yes, no, yes</solution>"),
    (LIES, "2**3 is 8, and so\n\n**yes, no, yes**<|im_end|>"),
    (LIES, "**Answer**\n\n$\\boxed{yes, no, yes}$"),
    (LIES_3, "<solution>no, yes, unknown</solution>"),
    (LIES_3, "\\boxed{\\text{no, yes, unknown}}"),
    (HOUSES, "**Jackie, Bob, Denise**"),
    (HOUSES, "**Jackie** , **Bob**, and **Denise**"),
    (HOUSES, "**jackie -> bob -> denise**"),
    (HOUSES, "\\boxed{\\text{Jackie, then Bob, then Denise}}"),
    (CUTS, "**6**"),
    (CUTS, "**six**"),
    (CUTS, "$\\boxed{6}$"),
    (CUTS, "**Step 1:** cut.\n**Answer: 6**"),
    (SHAPE, "**an equilateral triangle**"),
    (SHAPE, "***Triangle***"),
    (SOLIDS, "**two regular tetrahedra**"),
    (SEAT, "***3***"),
    (SEAT, "**3**"),
    (SEAT, "***Three***"),
    (MOVIE, "***comedy***"),
    (MOVIE, "***Comedy Movies***"),
    (LINE, "<solution>2, jet ski, filmmaking, punk</solution>"),
    (LINE, "<solution>Two,jet-ski,Filmmaking,Punk</solution>"),
    (LINE, "\\boxed{\\text{position 2, jet-ski, filmmaking, punk}}"),
    (COLUMN, "Postal Code"),
    (COLUMN, "postal-code."),
    (COLUMN, "\\boxed{\\text{postal code}}"),
    (COLUMN, "The class is: postal code"),
    (COLUMN, "The column class is postal code."),
    (COLUMN, "It has five digits.\n\n**postal_code**"),
    (JOIN, "{'name': 'full_name', \"driver's id\": 'id', 'born': 'dob', 'team': 'club', 'age': None}"),
    (
        JOIN,
        (
            'Here is the mapping:\n```python\n{\n  "name": "full_name",\n  "driver\'s id": "id",\n  "born": "dob",\n  '
            '"team": "club",\n}\n```\nEvery column is used once.'
        ),
    ),
    (PAIR, '```json\n{"b": "y", "a": "x", "c": null}\n```'),
    (PAIR, "\\boxed{\\{'a': 'x', 'b': 'y'\\}}"),
    (PAIR, "<solution>{'a': 'x', 'b': 'y'}</solution>"),
    (PAIR, "```python\njoin_map = {'a': 'x', 'b': 'y'}\n```"),
    (FISH, "**Bass, flounder, salmon, trout, ant, drill, island, opal**"),
    (FISH, "**opal, drill, ant, island, trout, bass, salmon,\nflounder**"),
    (FISH, "\\boxed{bass, flounder, salmon, trout, ant, drill, island, opal}"),
    (FISH, "<solution>ant, opal, drill, island, trout, bass, flounder, salmon</solution>"),
    (FISH, "There are two groups.\n\n**ant, drill, island, opal, bass, flounder, salmon, trout**"),
    (SIXTEEN, "**red, blue, green, pink, cat, dog, cow, pig, one, two, six, ten, oak, elm, ash, fir**"),
    (
        SIXTEEN,
        "<solution>one, six, ten, two, oak, fir, ash, elm, cat, cow, dog, pig, red, pink,blue,green</solution>",
    ),
    (TYPOS, "We introduce a Bayesian approach, and test it on 3 data sets: it works. The code is public."),
    (TYPOS, f"Here is the corrected text:\n\n{TYPOS.value}"),
    (TYPOS, f"<solution>{TYPOS.value}</solution>"),
    (TYPOS, f"```\n{TYPOS.value}\n```"),
    (TYPOS, f"Here it is:\n```text\n{TYPOS.value}\n```\nTwo words were wrong."),
    (
        TYPOS,
        "We introduce a Bayesian approach,\nand test it on 3 data sets:\nit works.\n\nThe code is public.",
    ),
    (TYPOS, f"<think>inctroduce</think>\n{TYPOS.value}"),
    (TYPOS, f"Corrected text:\n\n{TYPOS.value}"),
    (SHORT_PLOT, "<PLOT_SUMMARY>\nAnn wakes. Bob leaves. Cat sleeps."),
    (SHORT_PLOT, "<PLOT_SUMMARY> Ann wakes.\n\nBob leaves.\n\nCat sleeps.\n</PLOT_SUMMARY>"),
    (PLOT, f"<think>the barn comes last</think><PLOT_SUMMARY>{PLOT.value}<|im_end|>"),
    (PLOT, f"Let me see.\n<PLOT_SUMMARY>\n{PLOT.value}\n</PLOT_SUMMARY>\nThat is all. I hope it helps."),
    (
        PLOT,
        (
            "<PLOT_SUMMARY> ann inherits a farm.\n\nShe meets Dr. Bell who wants to buy it. They argue for weeks. A "
            "storm destroys the barn. Bell helps to rebuild it.\n\n**End of Plot Summary**"
        ),
    ),
    (CSV, 'score,name,note\n1.5,Ann,"a, b"\n2.0,Bob,'),
    (CSV, '```csv\nname,score,note\nAnn,1.50,"a, b"\nBob,2,NaN\n```'),
    (TSV, "Here is the table in TSV format:\n\nname\tscore\nAnn\t1.5\nBob\t2"),
    (TSV, "```\nname\tscore\nAnn\t1.5\nBob\t2\n```"),
    (TSV, "\tname\tscore\n0\tAnn\t1.5\n1\tBob\t2\n"),
    (JSON, '[{"name": "Ann", "score": 2.4, "ok": true}, {"name": "Bob", "score": 3}]'),
    (
        JSON,
        (
            '```json\n{"0": {"ok": true, "name": "Ann", "score": "2.40"},\n '
            '"1": {"name": "Bob", "score": 3, "ok": null}}\n```'
        ),
    ),
    (JSONL, '{"score": 2.4, "name": "Ann"}\n{"name": "Bob", "score": null}'),
    (JSONL, '```jsonl\n{"name": "Ann", "score": 2.4}\n\n{"name": "Bob"}\n```'),
    (
        HTML,
        (
            "```html\n<table><tr><th>name</th><th>score</th></tr>\n<tr><td><b>Ann</b> &amp; Bo</td><td>7.0</td></tr>"
            "</table>\n```"
        ),
    ),
    (HTML, "<TABLE><THEAD><TR><TH>score<TH>name<TBODY><TR><TD>7<TD>Ann&nbsp;&amp;<br>Bo</TABLE>"),
    (MARKDOWN, "| name | score |\n|---|---|\n| Ann | 1.5 |\n| Bob | 2 |"),
    (MARKDOWN, "Sure! Here it is:\n\nname | score\n:--- | ---:\nAnn | 1.50\nBob | 2.0\n"),
    (NEWER, "a,b\n1,2"),
    (NEWER, "<solution>\na,b\n1.0,2.0\n</solution>"),
]

WRONG: list[tuple[Asked, str, float]] = [
    (LIES, "**yes, no, no**", 0),
    (LIES, "**no, no, yes**", 0),
    (LIES, "**yes, no**", 0),
    (LIES, "**yes, no, yes, yes**", 0),
    (LIES, "yes, no, yes", 0),
    (LIES, "**yes, no, maybe**", 0),
    (LIES, "**yes, no, yes**\n\n**No, wait: yes, yes, yes**", 0),
    (LIES, "**Answer:** yes\n**yes, yes, yes**", 0),
    (LIES_3, "<solution>no, yes, no</solution>", 1 / 3),
    (LIES_3, "<solution>yes, no, yes</solution>", 0),
    (LIES_3, "<solution>no, yes</solution>", 0),
    (HOUSES, "**Bob, Jackie, Denise**", 0),
    (HOUSES, "**Jackie, Bob**", 0),
    (HOUSES, "Jackie, Bob, Denise", 0),
    (CUTS, "**7**", 0),
    (CUTS, "**16**", 0),
    (CUTS, "**about 6**", 0),
    (SHAPE, "**square**", 0),
    (SHAPE, "**tetrahedron**", 0),
    (SHAPE, "**not a triangle**", 0),
    (SOLIDS, "**tetrahedron**", 0),
    (SEAT, "***2***", 0),
    (SEAT, "**three or two**", 0),
    (SEAT, "So it is three", 0),
    (MOVIE, "***horror***", 0),
    (LINE, "<solution>2, jet-ski, filmmaking, rock</solution>", 3 / 8),
    (LINE, "<solution>jet-ski, 2, punk, filmmaking</solution>", 0),
    (COLUMN, "city", 0),
    (COLUMN, "code", 0),
    (COLUMN, "postal code or city", 0),
    (COLUMN, "post", 0),
    (PAIR, "{'a': 'x'}", 2 / 3),
    (PAIR, "{'a': 'y', 'b': 'x'}", 0),
    (PAIR, "{'a': 'x', 'b': 'y', 'c': 'z'}", 4 / 5),
    (PAIR, "a: x, b: y", 0),
    (PAIR, "{'a': None}", 0),
    (PAIR, "['a', 'x']", 0),
    (FISH, "**bass, flounder, salmon, ant, trout, drill, island, opal**", 0),
    (FISH, "**bass, flounder, salmon, trout**", 0),
    (FISH, "bass, flounder, salmon, trout, ant, drill, island, opal", 0),
    (
        SIXTEEN,
        "<solution>red,blue,green,pink,cat,dog,cow,oak,one,two,six,ten,pig,elm,ash,fir</solution>",
        0.5,
    ),
    (FISH, "**ant, bass, drill, flounder, island, opal, salmon, trout**", 0),
    (
        SIXTEEN,
        "<solution>red,blue,cat,dog,green,pink,cow,pig,one,two,six,ten,oak,elm,ash,fir</solution>",
        0.5,
    ),
    (SIXTEEN, "**red, blue, green, pink**", 0),
    (TYPOS, "The code is public.", 0),
    (TYPOS, "We introduce a Bayesian approach, and test it on 3 datasets: it works. The code is public.", 0),
    (PLOT, PLOT.value, 0),
    (SHORT_PLOT, "<PLOT_SUMMARY> Bob leaves. Ann wakes. Cat sleeps.", 1 / 3),
    (
        TYPOS,
        "We inctroduce a Bayesian approach, and test it on 3 data sets: it works. The code is public.",
        0,
    ),
    (TYPOS, "We introduce a Bayesian approach and test it on 3 data sets: it works. The code is public.", 0),
    (TYPOS, "we introduce a Bayesian approach, and test it on 3 data sets: it works. The code is public.", 0),
    (SHORT_PLOT, "<PLOT_SUMMARY> Cat sleeps. Ann wakes. Bob leaves.", 1 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Cat sleeps. Bob leaves. Ann wakes.", 1 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Ann wakes. Bob leaves.", 2 / 3),
    (SHORT_PLOT, "<PLOT_SUMMARY> Ann wakes. A dog barks. Bob leaves. Cat sleeps.", 2 / 3),
    (SHORT_PLOT, "Ann wakes. Bob leaves. Cat sleeps.", 0),
    (SHORT_PLOT, "<PLOT_SUMMARY>", 0),
    (CSV, 'name,score,note\nAnn,1.5,"a, b"', 0),
    (CSV, 'name,score,note\nBob,2,\nAnn,1.5,"a, b"', 0),
    (CSV, "name,score\nAnn,1.5\nBob,2", 0),
    (CSV, "name,score,note\nAnn,1.5,a, b\nBob,2,", 0),
    (CSV, '[{"name": "Ann", "score": 1.5, "note": "a, b"}, {"name": "Bob", "score": 2}]', 0),
    (TSV, "name,score\nAnn,1.5\nBob,2", 0),
    (TSV, "name\tscore\nAnn\t1.51\nBob\t2", 0),
    (JSON, '[{"name": "Ann", "score": 2.4, "ok": false}, {"name": "Bob", "score": 3}]', 0),
    (JSON, '{"name": "Ann", "score": 2.4, "ok": true}\n{"name": "Bob", "score": 3}', 0),
    (JSONL, '[{"name": "Ann", "score": 2.4}, {"name": "Bob", "score": null}]', 0),
    (HTML, "<table><tr><th>name</th><th>score</th></tr><tr><td>Ann</td><td>7</td></tr></table>", 0),
    (HTML, "<p>name score</p><p>Ann &amp; Bo 7</p>", 0),
    (MARKDOWN, "| name | score |\n| Ann | 1.5 |\n| Bob | 2 |", 0),
    (MARKDOWN, "| name | points |\n|---|---|\n| Ann | 1.5 |\n| Bob | 2 |", 0),
]


class Measured(NamedTuple):
    """A value of LiveBench's grader beside ours."""

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
