"""Plans that reasoning-gym pays in full, or nearly: right ones in many forms, and wrong ones.

Each row has what the library makes of it. `test_second_look.py` says what is told without the library, and
`test_every_data_set.py` asks it.
"""

from __future__ import annotations

from typing import Final

from tests.verdicts.gym.corpus import gym, looks

LIFE: Final = gym("game_of_life", "[[0,1],[1,0]]")
GRAPH: Final = gym(
    "graph_color",
    None,
    puzzle={"vertices": [0, 1, 2], "edges": [[0, 1], [1, 2]], "color_options": [1, 2, 3], "num_colors": 3},
    possible_answer={"0": 1, "1": 2, "2": 1},
)
JUGS: Final = gym("jugs", '["fill B", "pour B->A"]', puzzle={"jug_capacities": [2, 3, 5], "target": 1})
PARTS: Final = gym(
    "palindrome_partitioning", '[["a", "a", "b"], ["aa", "b"]]', solution=[["a", "a", "b"], ["aa", "b"]]
)
CODEIO: Final = gym("codeio", '{"steps": 3, "rate": 0.125, "names": ["a", "b"]}')
SOKOBAN: Final = gym("sokoban", "R", gamestr="+ + + + + +\n+ * @ X - +\n+ + + + + +\n\n")
RUSH: Final = gym("rush_hour", None, board_config="oooooo" * 2 + "AAoBoo" + "oooBoo" + "oooooo" * 2)
HANOI: Final = gym(
    "tower_of_hanoi",
    "Move disk 1 from Peg 1 to Peg 2\nMove disk 2 from Peg 1 to Peg 3\nMove disk 1 from Peg 2 to Peg 3",
    num_disks=2,
    num_pegs=3,
    start_peg=1,
    target_peg=3,
    solution_length=3,
)
LOCK: Final = gym(
    "quantum_lock",
    "A \u2192 A",
    target_value=4,
    initial_value=0,
    initial_state="red",
    buttons=[
        {"name": "A", "type": "add", "value": 2, "active_state": "any"},
        {"name": "B", "type": "add", "value": 3, "active_state": "any"},
        {"name": "C", "type": "subtract", "value": 1, "active_state": "any"},
    ],
)
BOXES: Final = gym("boxnet", None, initial_state={"0.5_0.5": ["box_red"], "0.5_1.5": ["target_red"]})
_FIRST: Final = '{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}'
_LAST: Final = '{"Agent[0.5, 1.5]": "move(box_red, target_red)"}'
_MOVES: Final = "Move disk 1 from Peg 1 to Peg 2\nMove disk 2 from Peg 1 to Peg 3\n"

# Plans with a step that nobody can take, and answers that say two things.
PLANS: Final = (
    *looks(
        globals(),
        r"""
# LIFE
[[0,1],[1,0]]¦[[0, 1], [1, 0]]¦[[0,1],⏎ [1,0]]
✗[[0,1],[1,0],[1,1]]¦[[0,1,1],[1,0,1]]¦[[0,1,"or not"],[1,0]]¦[[0,1],[1,0],"or not"]¦[[0,1],[1,0],[]]
✗[[0,1,null],[1,0]]¦[[0,1],[1,0],null]¦[[0,1],[1,0],[0,1],[1,0]]¦[[0,1],[1,0,0]]¦[[0,1],[1,0],{"a":1}]
✗[[0,1,NaN],[1,0]]
# GRAPH
{"0": 1, "1": 2, "2": 1}¦{"2": 3, "1": 2, "0": 1}¦{"0":3,"1":1,"2":2}
✗{"0": 1, "1": 2, "2": 1, "3": 1}¦{"0": 2, "0": 1, "1": 2, "2": 1}¦{"0": 1, "1": 1, "1": 2, "2": 1}
✗{"0": 1, "1": 2, "2": 1, "or": "not"}¦{"0": 1, "1": 2, "2": 1, "": 1}¦{"0": 1, "1": 2, "2": 1, "00": 2}
✗{"0": 1, "1": 2, "2": 1, "-1": 1}¦{"0": 1, "1": 2, "2": 1, "2.0": 2}
✗{"0": 3, "1": 3, "2": 3, "0": 1, "1": 2, "2": 1}¦{"0": 1, "1": 2, "2": 1, "note": "0 is 2"}
# JUGS
["fill B", "pour B->A"]¦["fill A", "empty A", "fill B", "pour B->A"]¦["fill B","pour B->A"]
✗["fill B or C", "pour B->A"]¦["fill B", "pour B->A or not"]¦["fill B twice", "pour B->A"]
✗["fill B", "pour B->A slowly"]¦["fill B ", "pour B->A"]¦["fill  B", "pour B->A"]
✗{"fill B": 1, "pour B->A": 2}¦["fill B", "pour B->A and B->C"]¦["fill B\tno", "pour B->A"]
✗["fill B", "pour B->A", "empty C please"]
# PARTS
[["a", "a", "b"], ["aa", "b"]]¦[["aa","b"],["a","a","b"]]
✗[["a", "a", "b"], ["aa", "b"], ["aa", "b"]]¦["aab", ["aa", "b"]]¦[["a", "a", "b"], "aab", ["aa", "b"]]
✗[["a", "a", "b"], ["aa", "b"], ["a", "a", "b"]]¦[{"a": 1, "b": 2}, ["aa", "b"]]
✗[["a", "a", "b"], {"aa": 1, "b": 2}]¦{"aab": 1}¦["aab", "aab", ["aa", "b"]]
✗[["aa", "b"], ["aa", "b"], ["a", "a", "b"]]¦[["a", "a", "b"], {"aa": 1, "b": 1}, ["aa", "b"]]
# CODEIO
{"steps": 3, "rate": 0.125, "names": ["a", "b"]}¦{"names": ["a", "b"], "rate": 0.1250, "steps": 3}
{"steps":3,"rate":1.25e-1,"names":["a","b"]}
✗{"steps": "3", "rate": 0.125, "names": ["a", "b"]}¦{"steps": 3, "rate": "0.125", "names": ["a", "b"]}
✗{"steps": 3, "rate": 0.12500000001, "names": ["a", "b"]}
✗{"steps": 3.0000000001, "rate": 0.125, "names": ["a", "b"]}
✗{"steps": 4, "steps": 3, "rate": 0.125, "names": ["a", "b"]}
✗{"steps": 3, "rate": 0.125, "names": {"item_0": "a", "item_1": "b"}}
✗{"steps": 3, "rate": 0.125, "names": ["a", "b"], "names": ["a", "b"]}
✗{"rate": 7, "steps": 3, "rate": 0.125, "names": ["a", "b"]}
✗{"steps": 3, "rate": 0.125, "names": {"item_1": "b", "item_0": "a"}}
✗{"steps": 3, "rate": 0.1249999999999, "names": ["a", "b"]}
# SOKOBAN
R¦RL¦RLR¦R,L
✗UR¦RU¦LR¦R or not¦R, or not¦Rd¦RRRR¦DR¦R weeks¦right R¦RLL¦R!¦R # no¦not R
# RUSH
B+1 A+4¦B+2, A+4¦B-2 A+4¦B+1 A+1 A+3¦BB+1 AA+4¦B+1,A+4
✗A+4 B+1 A+3¦B+9 A+4¦B+2 A+5¦B+2 A+4 A+1¦B-1 B+2 A+9¦A-1 B+1 A+4¦B+0 B+1 A+4¦AB+1 A+4¦B+3 A+4¦A+2 B+1 A+3
✗C+1 B+1 A+4¦B+1 A+0 A+4¦B-3 A+4
# LOCK
A \u2192 A¦A->A¦a, a¦AA¦A A¦A\u2192A
✗A \u2192 A \u2192¦\u2192 A \u2192 A¦A \u2192 A - -¦A >> A¦A -> -> A¦, A, A¦A, A,¦A --> A¦A > A¦A - A
✗A \u2192 A >
""",
    ),
    (
        BOXES,
        (f"[{_FIRST}, {_LAST}]", f"[{_FIRST},\n {_LAST}]"),
        (
            f'[{{"Agent[7.5, 0.5]": "move(box_red, target_red)"}}, {_FIRST}, {_LAST}]',
            f'[{{"Agent[0.5, 0.5]": "move(box_blue, square[0.5, 1.5])"}}, {_FIRST}, {_LAST}]',
            f'[{{"Agent[0.5, 0.5]": "move(box_red, target_red)"}}, {_FIRST}, {_LAST}]',
            f'[{{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 0.5])"}}, {_FIRST}, {_LAST}]',
            f'[{{"Agent[0.5, 0.5]": "move(box_red, square[2.5, 1.5])"}}, {_FIRST}, {_LAST}]',
            f'[{_FIRST}, {{"Agent[0.5, 1.5]": "move(box_red, target_red) or not"}}]',
            f'[{_FIRST}, {{"not Agent[0.5, 1.5]": "move(box_red, target_red)"}}]',
            f'[{_FIRST}, {{"0.5 and 1.5": "move(box_red, target_red)"}}]',
            f'[{_FIRST}, {_LAST}, {{"Agent[0.5, 1.5]": "move(box_red, target_red)"}}]',
            f'[{_FIRST}, {{"Agent[0.5, 1.5]": "wait", "Agent[0.50, 1.50]": "move(box_red, target_red)"}}]',
            f'[{_FIRST}, {{"Agent[0.5, 1.5]": "wait"}}, {_LAST}]',
            f'[{{"Agent[0.5, 0.5]": "wait", "Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}}, {_LAST}]',
            f'[{_FIRST}, {_LAST}, {{"or": "not"}}]',
        ),
    ),
    (
        HANOI,
        (f"{_MOVES}Move disk 1 from Peg 2 to Peg 3", f"{_MOVES}\nMove disk 1 from Peg 2 to Peg 3\n"),
        (
            f"{_MOVES}NotMove disk 1 from Peg 2 to Peg 3",
            f"{_MOVES}\u00acMove disk 1 from Peg 2 to Peg 3",
            f"{_MOVES}1.Move disk 1 from Peg 2 to Peg 3",
            f"un{_MOVES}Move disk 1 from Peg 2 to Peg 3",
            f"{_MOVES}(Move disk 1 from Peg 2 to Peg 3",
            f"{_MOVES}Move disk 1 from Peg 2 to Peg 3, or not",
            f"{_MOVES}Move disk 1 from Peg 2 to Peg 3 or Peg 1",
            f"{_MOVES}Do not Move disk 1 from Peg 2 to Peg 3",
            f"{_MOVES}Move disk 1 from Peg 2 to Peg 3\nor not",
            f"{_MOVES}?Move disk 1 from Peg 2 to Peg 3",
        ),
    ),
)
