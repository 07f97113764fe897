r"""Answers to logic puzzles, each with its reference and what it deserves.

A row of HONEST, WRONG and MEASURED begins with the type and the reference. HONEST and WRONG go on with the content of
an `<answer>`, WRONG with its score, too; MEASURED with a whole text, what Reasoning360's scorers were measured to give
for it, what it gets here, and why where the two differ. A row of ATTACKS is a type, a reference, a whole text, and what
it tries: none gets anything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.text_tables import listed

TABLE: dict[str, list[Any]] = {
    "header": ["Position", "Food", "Job"],
    "rows": [["1", "apple", "pilot"], ["2", "bread", "chef"], ["3", "corn", "nurse"]],
}
PAIR = {
    "header": ["Position", "Nationality", "Job"],
    "rows": [["1", "british", "plumber"], ["2", "polish", "carpenter"]],
}
HOUSES = {"header": ["House", "Name", "Drink"], "rows": [["1", "Eric", "milk"], ["2", "Peter", "tea"]]}
_PETS = {"header": ["Pet", "Job"], "rows": [["cat", "chef"], ["dog", "nurse"]]}
_FILMS = {
    "header": ["Position", "Height", "Movie-Genre"],
    "rows": [["1", "130", "sci-fi"], ["2", "1.5", "film"]],
}
_CATS = {"header": ["Position", "Pet"], "rows": [["1", "cat"], ["2", "cat"], ["3", "dog"]]}
BIRDS = ["pigeon", "sparrow", "quail"]
PEOPLE = ["Emma", "Liam", "Wei"]
GRID = [[1, 1], [0, 0]]
DIAGONAL = [[0, 0, 3], [0, 3, 0], [3, 0, 0]]

CATEGORIES = {
    "birds": ["hummingbird", "kingfisher", "emu"],
    "mammals": ["llama", "walrus", "bat", "opossum"],
    "fruits": ["passion fruit", "kiwi", "dragonfruit"],
    "vehicles": ["hot air balloon", "van", "golf cart", "jet"],
    "instruments": ["erhu", "bass", "theremin"],
    "gemstones": ["lapis lazuli", "jade", "tanzanite", "opal", "onyx"],
    "people": ["Emma", "Liam", "Wei", "Priya", "Mohammed", "Nia", "Jin"],
}
REFERENCES: list[tuple[str, Any]] = [
    *(("zebra", TABLE), ("zebra", PAIR), ("zebra", HOUSES)),
    ("zebra", {"header": ["Position", "Floor"], "rows": [["1", "2"], ["2", "1"]]}),
    *(("ordering", names) for names in CATEGORIES.values()),
    *(("ordering", ["None", "pass"]), ("graph", "fdebme"), ("graph", "pass"), ("graph", "I"), ("arc", GRID)),
    *(("arc", [[0]]), ("arc", [[9, 8, 7]]), ("arc", [[index % 10 for index in range(30)]] * 30)),
]

_TABLE_LINES = """{
  "header": ["Position", "Food", "Job"],
  "rows": [
    ["1", "apple", "pilot"],
    ["2", "bread", "chef"],
    ["3", "corn", "nurse"]
  ]
}"""
_ONE_LINE = (
    '{"header": ["Position", "Food", "Job"], "rows": [["1", "apple", "pilot"], ["2", "bread", "chef"], '
    '["3", "corn", "nurse"]]}'
)
_ROWS = "[['1','apple','pilot'],['2','bread','chef'],['3','corn','nurse']]"


def table(rows: str, header: str = "Position,Food,Job") -> str:
    """Write a table; its cells are texts where no bracket begins it."""
    return f"{{'header': {_cells(header)}, 'rows': {_lines(rows)}}}"


def _lines(rows: str) -> str:
    return rows if rows.startswith("[") else f"[{','.join(map(_cells, rows.split(';')))}]"


def _cells(row: str) -> str:
    return row if row.startswith("[") else "[" + ",".join(f"'{cell}'" for cell in row.split(",")) + "]"


HONEST: list[tuple[str, Any, str]] = [
    *(("zebra", TABLE, _ONE_LINE), ("zebra", TABLE, _TABLE_LINES), ("zebra", TABLE, table(_ROWS))),
    ("zebra", TABLE, f"```json\n{_TABLE_LINES}\n```"),
    ("zebra", TABLE, f"```\n{_ONE_LINE}\n```"),
    ("zebra", TABLE, table("[[1,'apple','pilot'],[2,'bread','chef'],[3,'corn','nurse']]")),
    ("zebra", TABLE, table("2,bread,chef;1,apple,pilot;3,corn,nurse")),
    ("zebra", TABLE, table("1,pilot,apple;2,chef,bread;3,nurse,corn", "Position,Job,Food")),
    ("zebra", TABLE, table("apple,1,pilot;bread,2,chef;corn,3,nurse", "Food,Position,Job")),
    ("zebra", TABLE, table("1,Apple,PILOT;2, bread ,Chef;3,corn,nurse")),
    ("zebra", TABLE, table("[('1','apple','pilot'),('2','bread','chef'),('3','corn','nurse'),]")),
    ("zebra", TABLE, table(_ROWS, "position,food,job")),
    ("zebra", TABLE, table(_ROWS, "#,Dish,Work")),
    ("zebra", TABLE, f"{{'rows': {_ROWS}, 'header': ['Position', 'Food', 'Job']}}"),
    ("zebra", HOUSES, table("1,Eric,milk;2,Peter,tea", "House,Name,Drink")),
    ("zebra", _PETS, table("cat,chef;dog,nurse", "Pet,Job")),
    (
        "zebra",
        _FILMS,
        '{"header": ["Position", "movie genre", "height"], "rows": [[1, "sci-fi", 130], [2, "film", 1.5]]}',
    ),
    ("zebra", _CATS, table("1,cat;2,cat;3,dog", "Position,Pet")),
    ("zebra", PAIR, table("[[2,'Polish','carpenter'],[1,'British','plumber']]", "Position,Nationality,Job")),
    ("zebra", PAIR, table("plumber,british,1;carpenter,polish,2", "Job,Nationality,Position")),
    *(("ordering", names, repr(names)) for names in CATEGORIES.values()),
    ("ordering", BIRDS, "['pigeon', 'sparrow', 'quail']"),
    ("ordering", BIRDS, '["pigeon","sparrow","quail"]'),
    ("ordering", BIRDS, "[pigeon, sparrow, quail]"),
    ("ordering", BIRDS, "['pigeon',\n 'sparrow',\n 'quail',\n]"),
    ("ordering", BIRDS, "('pigeon', 'sparrow', 'quail')"),
    ("ordering", BIRDS, "**['pigeon', 'sparrow', 'quail']**."),
    ("ordering", BIRDS, "`['pigeon', 'sparrow', 'quail']`"),
    ("ordering", BIRDS, "['Pigeon', 'Sparrow', 'Quail']"),
    ("ordering", BIRDS, "```python\n['pigeon', 'sparrow', 'quail']\n```"),
    ("ordering", PEOPLE, "['Emma','Liam','Wei']"),
    ("ordering", PEOPLE, "[emma, liam, wei]"),
    ("ordering", CATEGORIES["vehicles"], "[hot air balloon, van, golf  cart, jet]"),
    ("ordering", ["O'Brien", 'the "King"', "7"], '["O\'Brien", \'the "King"\', 7]'),
    ("ordering", ["None", "true"], "[None, true]"),
    ("ordering", ["Zo\u00eb", "\u738b"], '["Zo\\u00eb", "\u738b"]'),
    *(
        ("graph", "fdebme", answer)
        for answer in listed(r"""
fdebme¦Fdebme¦FDEBME¦ fdebme ¦⏎fdebme⏎¦fdebme.¦"fdebme"¦'fdebme'¦`fdebme`¦**fdebme**¦**fdebme.**
\text{fdebme}¦\u201cfdebme\u201d¦```⏎fdebme⏎```
""")
    ),
    *(("graph", " zorpus\n", "zorpus"), ("graph", "Zorpus", "zorpus"), ("graph", "pass", "pass")),
    *(("graph", "I", "i"), ("graph", "qxj", "\\text{Qxj}"), ("graph", "qxj", "```\nqxj\n```")),
    *(
        ("arc", GRID, answer)
        for answer in listed(r"""
[[1, 1], [0, 0]]¦[[1,1],[0,0]]¦[[1, 1],⏎ [0, 0]]¦[⏎  [⏎    1,⏎    1⏎  ],⏎  [0, 0]⏎]¦[['1', '1'], ['0', '0']]
[[1.0, 1.0], [0.0, 0.0]]¦((1, 1), (0, 0))¦[[1, 1], [0, 0],]¦```json⏎[[1, 1], [0, 0]]⏎```
```[[1, 1], [0, 0]]```
""")
    ),
    *(("arc", [[0]], "[[0]]"), ("arc", [[5], [5]], "[[5], [5]]"), ("arc", "[[1, 2]]", "[[1, 2]]")),
    ("arc", DIAGONAL, "[[0, 0, 3],\n [0, 3, 0],\n [3, 0, 0]]"),
    ("arc", DIAGONAL, "[[0,0,3],[0,3,0],[3,0,0]]"),
    ("arc", DIAGONAL, "```python\n[[0, 0, 3], [0, 3, 0], [3, 0, 0]]\n```"),
    ("arc", [[9, 8, 7]], "[[9, 8, 7]]"),
    ("arc", [[1], [2], [3]], "([1], [2], [3])"),
    ("arc", [[2] * 10] * 10, str([[2] * 10] * 10)),
    ("arc", [[4, 4], [4, 4]], "`[[4, 4], [4, 4]]`"),
]

WRONG: list[tuple[str, Any, str, float]] = [
    ("zebra", TABLE, table("1,apple,pilot;2,corn,chef;3,bread,nurse"), 4 / 6),
    ("zebra", TABLE, table("1,apple,chef;2,corn,pilot;3,bread,nurse"), 2 / 6),
    ("zebra", TABLE, table("1,bread,chef;2,corn,nurse;3,apple,pilot"), 0.0),
    ("zebra", TABLE, table("1,apple,pilot;2,?,chef;3,corn,nurse"), 5 / 6),
    ("zebra", TABLE, table("[['1','apple','pilot'],['2',None,''],['3','corn','nurse']]"), 4 / 6),
    ("zebra", TABLE, table("1,pilot,apple;2,chef,bread;3,nurse,corn"), 0.0),
    ("zebra", TABLE, table("1,apple,pilot;2,apple,chef;3,corn,nurse"), 4 / 6),  # repeated
    ("zebra", TABLE, table("[['1','apple','pilot'],['2',['bread'],'chef'],['3',True,'nurse']]"), 4 / 6),
    ("zebra", HOUSES, table("1,Peter,milk;2,Eric,tea", "House,Name,Drink"), 0.5),
    ("zebra", TABLE, table("1,apple,pilot;2,bread,chef"), 0.0),
    ("zebra", TABLE, table("1,apple;2,bread;3,corn", "Position,Food"), 0.0),
    ("zebra", TABLE, table("apple,pilot;bread,chef;corn,nurse", "Food,Job"), 0.0),
    ("zebra", TABLE, table("1,apple,pilot;2,bread,chef;3,corn"), 0.0),
    ("zebra", TABLE, table("1,apple,pilot;2,bread,chef;4,corn,nurse"), 0.0),
    ("zebra", TABLE, table("1,apple,pilot;2,bread,chef;2,corn,nurse"), 0.0),
    ("zebra", TABLE, _ROWS, 0.0),
    ("zebra", TABLE, _ONE_LINE[:-1], 0.0),
    ("zebra", TABLE, f"My table: {_ONE_LINE}", 0.0),
    ("zebra", TABLE, "{'header': 'Position', 'rows': 3}", 0.0),
    ("zebra", TABLE, "{'header': [], 'rows': []}", 0.0),
    *(
        ("ordering", BIRDS, answer, 0.0)
        for answer in listed(r"""
['sparrow', 'pigeon', 'quail']¦['quail', 'sparrow', 'pigeon']¦['pigeon', 'sparrow']¦[]¦pigeon
['pigeon', 'sparrow', 'quail', 'owl']¦['pigeon', 'sparrow', 'quial']¦['pigeon sparrow quail']
['pigeon' 'sparrow' 'quail']¦pigeon, sparrow, quail¦[['pigeon', 'sparrow', 'quail']]
{'1': 'pigeon', '2': 'sparrow', '3': 'quail'}¦['pigeon', 'sparrow', None]¦['pigeon', 'sparrow', '']
['pigeon', 'sparrow', 'quail'¦'pigeon', 'sparrow', 'quail']
""")
    ),
    ("ordering", PEOPLE, "['Wei', 'Liam', 'Emma']", 0.0),
    ("ordering", CATEGORIES["fruits"], "[kiwi, dragonfruit]", 0.0),
    ("ordering", CATEGORIES["vehicles"], "['van', 'hot air balloon', 'golf cart', 'jet']", 0.0),
    ("ordering", CATEGORIES["gemstones"], "['lapis lazuli', 'jade', 'tanzanite', 'onyx', 'opal']", 0.0),
    *(
        ("graph", "fdebme", answer, 0.0)
        for answer in listed(r"""
fdebm¦fdebmee¦is fdebme¦fdebme fdebme¦fdebme, zorpus¦not fdebme¦fdebme1¦f d e b m e¦[fdebme]¦fdebme?¦zorpus
\u0192debme¦fd\u0435bme¦fdebme or zorpus¦fdebme⏎zorpus¦...
""")
    ),
    *(("graph", "pass", "pas", 0.0), ("graph", "I", "l", 0.0), ("graph", "qxj", "jxq", 0.0)),
    ("graph", "qxj", "q-x-j", 0.0),
    *(
        ("arc", GRID, answer, 0.0)
        for answer in listed(r"""
[[1, 1], [0, 1]]¦[[0, 0], [1, 1]]¦[[1, 0], [1, 0]]¦[[1, 1]]¦[[1, 1], [0, 0], [0, 0]]¦[[1, 1, 0], [0, 0, 0]]
[[1, 1], [0]]¦[[1, 1], [0, 0, 0]]¦[1, 1, 0, 0]¦[[[1, 1], [0, 0]]]¦[[1 1] [0 0]]¦[[1, 1], [0, 0]
[[1, 1], [0, None]]¦[[true, true], [false, false]]¦[[1.9, 1], [0, 0]]¦[['one', 1], [0, 0]]¦[[1, 1], ...]
{'0': [1, 1], '1': [0, 0]}¦[[], []]
""")
    ),
    ("arc", DIAGONAL, "[[3, 0, 0], [0, 3, 0], [0, 0, 3]]", 0.0),
]


_OF_PAIR = "Position,Nationality,Job"
_TWO_JOBS = "1,british,plumber,carpenter;2,polish,plumber,carpenter"
_OTHER_HEADER = table("1,pilot,apple;2,chef,bread;3,nurse,corn", "Position,Job,Food")


class Measured(NamedTuple):
    row_type: str
    value: Any
    text: str
    old: float
    ours: float
    remark: str = ""


def answered(answer: str) -> str:
    return f"<answer>{answer}</answer>"


_MEASURED: list[tuple[Any, ...]] = [
    ("arc", GRID, "[[1, 1], [0, 0]]", 1.0, 1.0),
    ("arc", GRID, "\n[[1, 1],\n[0, 0]]\n", 1.0, 1.0),
    ("arc", GRID, "[['1', '1'], ['0', '0']]", 1.0, 1.0),
    ("arc", GRID, "[[1.9, 1], [0, 0]]", 1.0, 0.0, "1.9 is not 1"),
    ("arc", GRID, "[[1, 1], [0, 1]]", 0.0, 0.0),
    ("arc", GRID, "[[1, 1], [0]]", 0.0, 0.0),
    ("zebra", TABLE, _ONE_LINE, 1.0, 1.0),
    ("zebra", TABLE, _TABLE_LINES, 0.0, 1.0, "an answer may have lines"),
    (
        "zebra",
        TABLE,
        table("[[1,'apple','pilot'],[2,'bread','chef'],[3,'corn','nurse']]"),
        0.667,
        1.0,
        "1 is '1'",
    ),
    ("zebra", PAIR, '{"rows":[["1","",""],["2","",""]]}', 0.333, 0.0, "positions are free"),
    ("zebra", TABLE, _OTHER_HEADER, 0.333, 1.0, "its header says so"),
    ("ordering", BIRDS, "['pigeon','sparrow','quail']", 1.0, 1.0),
    ("ordering", BIRDS, "[pigeon, sparrow, quail]", 1.0, 1.0),
    ("ordering", PEOPLE, "['Emma','Liam','Wei']", 0.0, 1.0, "people have capitals"),
    ("ordering", BIRDS, "['pigeon',\n'sparrow',\n'quail']", 0.0, 1.0, "an answer may have lines"),
    ("ordering", BIRDS, "type('X',(),{'__eq__':lambda s,o:True})()", 1.0, 0.0, "nothing is evaluated"),
    (
        "ordering",
        BIRDS,
        "__import__('sys')._getframe(2).f_locals.get('target')",
        1.0,
        0.0,
        "nothing is evaluated",
    ),
    ("ordering", BIRDS, "[" + ", ".join(["pigeon"] * 14), 0.0, 0.0),  # after ten seconds
    ("graph", "fdebme", " fdebme ", 1.0, 1.0),
    ("graph", "fdebme", " is fdebme ", 0.0, 0.0),
    ("graph", "fdebme", "\nfdebme\n", 0.0, 1.0, "an answer may have lines"),
]
MEASURED = [
    *(Measured(row_type, value, answered(answer), *worth) for row_type, value, answer, *worth in _MEASURED),
    Measured("arc", GRID, f"<think>{answered('[[1, 1], [0, 0]]')}", 1.0, 0.0, "a thought that never ended"),
    Measured("arc", [[0]], "", 1.0, 0.0, "no answer is not [[0]]"),
]

_RIGHT: list[tuple[str, Any, str]] = [
    *(("zebra", TABLE, _ONE_LINE), ("ordering", BIRDS, str(BIRDS)), ("graph", "fdebme", "fdebme")),
    ("arc", GRID, str(GRID)),
]
_SPOILED = {  # a whole text around a right answer, and what it tries
    "<answer>{}</answer> <think> or": "thinks again",
    "<think><answer>{}</answer>": "an unfinished thought",
    "<think><answer>{}</answer></think>I don't know": "an answer in the thought alone",
    "<answer>{}</answer> <answer>?</answer>": "takes its answer back",
    "<answer>{} {}</answer>": "two answers",
    "<answer>{}; {}</answer>": "two answers",
    "{}": "no tags",
    "<answer>{}": "is cut off",
    "<ANSWER>{}</ANSWER>": "other tags",
    "<answer>{}" + " " * 60_000 + "x</answer>": "a giant answer",
    "x" * 1_000_001 + "<answer>{}</answer>": "a giant response",
    "<answer>\\boxed{{}}</answer>": "a box in an answer",
    "<answer>__import__('os').system('touch executed') or {}</answer>": "is executed",
    "<answer>" + "[{'rows':(" * 4000 + "{}</answer>": "overflows the stack",
}
_FOODS = "['apple','bread','corn']"
_ANSWERS: list[tuple[str, Any, str, str]] = [
    ("zebra", TABLE, table("1,,;2,,;3,,"), "positions alone"),
    ("zebra", TABLE, table("1,a,b;2,c,d;3,e,f"), "positions alone"),
    ("zebra", PAIR, table("1,british,plumber;2,british,plumber", _OF_PAIR), "one guess in every row"),
    ("zebra", TABLE, table("1,apple,pilot;2,apple,pilot;3,apple,pilot"), "one guess in every row"),
    ("zebra", TABLE, table("1,apple,pilot;2,apple,pilot;3,corn,nurse"), "a row in two places"),
    ("zebra", TABLE, table(f"{_ROWS[:-1]},['1','bread','chef']]"), "more rows than there are"),
    ("zebra", PAIR, table(_TWO_JOBS, f"{_OF_PAIR},Job"), "a column in two places"),
    ("zebra", TABLE, f"{{'header': [], 'rows': [], 'rows': {_ROWS}}}", "a key in two places"),
    ("zebra", TABLE, table(_ROWS)[:-1] + f", 'other': {_ROWS}}}", "an object with more"),
    (
        "zebra",
        TABLE,
        table(f"[['1',{_FOODS},'x'],['2',{_FOODS},'y'],['3',{_FOODS},'z']]"),
        "lists every option",
    ),
    ("ordering", BIRDS, "['pigeon', 'sparrow', 'quail'] or ['quail', 'sparrow', 'pigeon']", "two answers"),
    ("ordering", BIRDS, "[['pigeon', 'sparrow', 'quail'], ['quail', 'sparrow', 'pigeon']]", "every option"),
    ("ordering", BIRDS, "{'pigeon', 'sparrow', 'quail'}", "a set has every order"),
    ("ordering", BIRDS, "[" + "pigeon, " * 14, "an expression that never ends"),
    ("ordering", BIRDS, "['pigeon'" + " " * 40_000, "an expression that never ends"),
    ("graph", "fdebme", "zorpus fdebme jompus", "lists every option"),
    ("graph", "fdebme", ".*", "a pattern"),
    ("arc", GRID, "[[...]]", "a pattern"),
    ("arc", GRID, "[[[1, 1], [0, 0]], [[0, 0], [1, 1]]]", "two grids"),
    ("arc", GRID, "[[1] * 2] + [[0] * 2]", "is computed"),
    ("arc", GRID, "[[" + "9" * 30_000 + "]]", "a giant number"),
    ("arc", [[0]], "nothing", "an answer that can't be read"),
    ("arc", [[0]], "[[]]", "emptiness"),
]
ATTACKS: list[tuple[str, Any, str, str]] = [
    *(
        (row_type, value, text.replace("{}", right), trick)
        for row_type, value, right in _RIGHT
        for text, trick in _SPOILED.items()
    ),
    *((row_type, value, answered(answer), trick) for row_type, value, answer, trick in _ANSWERS),
    ("zebra", TABLE, f"such as <answer> {PAIR} </answer>.", "echoes the prompt"),
    ("ordering", PEOPLE, f"such as <answer> {BIRDS} </answer>.", "echoes the prompt"),
    ("graph", "zorpus", "such as <answer> fdebme </answer>.", "echoes the prompt"),
    ("graph", "fdebme", "fdebme " * 1000, "says it everywhere"),
]

NULL_ANSWERS = [
    *listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>It must be¦\boxed{}¦<answer></answer>¦<answer> ⏎</answer>¦<answer>
</answer>¦<|im_end|>¦<answer>[]</answer>¦<answer>[[]]</answer>¦<answer>{}</answer>¦<answer>None</answer>
<answer>```⏎```</answer>
The quick brown fox jumps over the lazy dog. It was a sunny day, and nobody asked why.
"""),
    "# a comment",
]

# By type: references that no answer could be compared with, and a part of what is said of each.
BROKEN: list[tuple[str, Any, str]] = [
    ("zebra", "", "can't be read: it ends too early"),
    ("zebra", "apple", "text without quotes: 'apple'"),
    ("zebra", [], "header and rows"),
    ("zebra", {}, "header and rows"),
    ("zebra", {"rows": [["1"]]}, "header and rows"),
    ("zebra", {"header": [], "rows": []}, "header must be a list of names"),
    ("zebra", {"header": ["Position", 2], "rows": []}, "header must be a list of names"),
    ("zebra", {"header": ["Position", "Job"], "rows": []}, "no rows"),
    (
        "zebra",
        {"header": ["Position", "Job"], "rows": [["1", "chef"], ["2"]]},
        "rows must be lists of 2 cells",
    ),
    ("zebra", {"header": ["Position", "Job"], "rows": [["1", "chef"], ["2", ""]]}, "a filled cell for"),
    (
        "zebra",
        {"header": ["Position", "Job"], "rows": [["1", "chef"], ["2", None]]},
        "a filled cell for each of",
    ),
    ("zebra", {"header": ["Position"], "rows": [["1"], ["2"]]}, "a column beside Position"),
    ("zebra", {"header": ["Position", "Job"], "rows": [["1", "chef"], ["1", "nurse"]]}, "each position once"),
    ("ordering", "", "can't be read"),
    ("ordering", [], "needs a list of names"),
    ("ordering", ["a", ""], "needs a list of names"),
    ("ordering", ["a", None], "needs a list of names"),
    ("ordering", {"a": 1}, "needs a list of names"),
    ("ordering", 5, "needs a list of names"),
    ("graph", "", "one word of letters"),
    ("graph", "two words", "one word of letters"),
    ("graph", ["fdebme"], "one word of letters"),
    ("graph", "f1", "one word of letters"),
    ("arc", "", "can't be read"),
    ("arc", [], "rows of whole numbers"),
    ("arc", [[]], "rows of whole numbers"),
    ("arc", [[1, 2], [3]], "all of one length"),
    ("arc", [1, 2], "rows of whole numbers"),
    ("arc", [[1.5]], "rows of whole numbers"),
    ("arc", [[None]], "rows of whole numbers"),
    ("arc", [["red"]], "rows of whole numbers"),
    ("arc", [[True]], "rows of whole numbers"),
    ("arc", "[[1, 2], [3, 4]", "can't be read"),
]
