"""Texts that reasoning-gym pays in full, or nearly: right ones in many forms, and wrong ones.

Each row has what the library makes of it. `test_second_look.py` says what is told without the library, and
`test_every_data_set.py` asks it.
"""

from __future__ import annotations

from typing import Final

from tests.verdicts.gym.corpus import gym, looks

SORTED_WORDS: Final = gym(
    "word_sorting", "wealthy, may, broke, OWNER", sorted_words=["wealthy", "may", "broke", "OWNER"]
)
FIGLET: Final = gym("figlet_font", "EXTRAORDINARY", font="clr5x10", space_letters=True)
BACKWARD: Final = gym("spell_backward", "tsrubllehs", word="shellburst")
JUMBLED: Final = gym("letter_jumble", "Mr Smith continues", original_words=["Mr", "Smith", "continues"])
ODDS: Final = gym("dice", "581/1440")
ZEBRA: Final = gym("zebra_puzzles", "carol")
KNIGHTS: Final = gym("knights_knaves", "Daniel is a knight, and Lily is a knave.", names=["Daniel", "Lily"])
HEROES: Final = gym("knights_knaves", "Zoey is a hero, Ella is a villain, and Ava is a villain.")
ARC: Final = gym("arc_agi", "9 9\n9 1", input=[[9, 9], [9, 1]], output=[[9, 9], [9, 1]])
LETTERS: Final = gym(
    "cryptarithm",
    "A=1,B=3,C=2,D=6",
    words_letters=["AB", "AB"],
    result_letters="CD",
    allow_leading_zero=False,
)
KAKURASU: Final = gym("kakurasu", "1 0\n0 1", row_sums=[1, 2], col_sums=[1, 2], n_rows=2, n_cols=2)
SURVO: Final = gym(
    "survo", "9 1 10\n8 5 13\n17 6 23", solution=[[9, 1, 10], [8, 5, 13], [17, 6, 23]], board_size=3
)
INTEGRAL: Final = gym("simple_integration", "X**2 + C", variable="X", integrand="2*X")

# Texts, and sentences with more in them than the library reads.
TEXTS: Final = looks(
    globals(),
    r"""
# INTEGRAL
X**2 + C¦X**2¦X*X + K¦X**2 + c + 7¦X**2 + E**2¦X**2 + C + sin(2)¦pi + X**2¦X**2 - C*K
✗X**2 + C + x**3¦X**2 + x¦x**3/3 + X**2 + C¦X**2 + C - 7*y¦X**2 + Y*Z¦X**2 + sin(t)¦X**2 + exp(z)*C¦X**2 + A
✗X**2*x/x¦X**2 + C + 5*x**6 - 4*x/3¦(X**2 + C) - (x**2 + C)¦X**2 + n*(n + 1)
# SORTED_WORDS
wealthy, may, broke, OWNER¦wealthy,may,broke,OWNER¦wealthy,  may, broke, OWNER
✗wealthy, may, broke, OWNER, or not¦wealthy, may, broke, OWNER, wealthy
✗wealthy, may, broke, OWNER, OWNER, broke, may, wealthy¦wealthy, may, broke, OWNER,
✗wealthy, may, broke, OWNER, 7¦wealthy, may, broke, OWNER, not this¦wealthy, may, broke, OWNER, ,\u0020
✗wealthy, may, broke, OWNER,⏎no¦wealthy, may, broke, OWNER, zebra¦wealthy, may, broke, OWNER, ...
# FIGLET
EXTRAORDINARY¦extraordinary¦E X T R A O R D I N A R Y
✗EXTRAORDIN¦EXTRAORDINAL¦EXTRAORDINARILY¦EXTRAORDINARY or not¦EXTRAORDINARYEXTRAORDINARY¦EXTRAORDINXXX
✗XXTRAORDINARY¦EXTRAORDINARY!¦EXTRAORDINARIES¦ULTRAORDINARY
# BACKWARD
tsrubllehs¦TSRUBLLEHS¦Tsrubllehs
✗tsrubllehs or not¦tsrubllehs.¦tsrubllehss¦tsrubllehs, shellburst¦tsrubllehs⏎no¦tsrubllehs tsrubllehs
✗tsrubllehs 7¦tsrubllehsx¦tsrubllehs!¦tsrubllehs is wrong
# JUMBLED
Mr Smith continues¦mr smith continues¦Mr  Smith continues
✗Mr Smith continues or not¦Mr Smith continues his¦Mr Smith continues Mr Smith continues¦Mr Smith continues.
✗Mr Smith continues⏎no¦Mr Smith continues 7¦Mr Smith continues rM Smtih¦Mr Smith continues, or so
✗Mr Smith continues !¦Mr Smith continues weeks
# ODDS
581/1440
✗581⏎/1440¦58⏎1/1440¦581/⏎1440¦581/144⏎0¦5⏎8⏎1/1440¦581⏎⏎/1440¦58⏎1/14⏎40¦581/1⏎440¦581/14⏎40¦5⏎81/1440
# ZEBRA
carol¦Carol
✗ca⏎rol¦c⏎arol¦car⏎ol¦caro⏎l¦c⏎a⏎r⏎o⏎l¦carol or bob¦carol⏎bob¦ca⏎⏎rol¦C⏎AROL¦ca⏎r⏎ol
# ARC
9 9⏎9 1¦9 9 ⏎9 1⏎
✗9 9⏎9 1⏎Shape: 2x2¦Shape: or not⏎9 9⏎9 1¦9 9⏎Shape: 3x3⏎9 1¦Shape: 2x2⏎9 9⏎9 1¦9 9⏎9 1⏎Shape: 9 9
✗9 9⏎9 1⏎  Shape: I don't know¦Shape: ⏎9 9⏎9 1¦Shape: Shape: ⏎9 9⏎9 1¦9 9⏎9 1⏎Shape: 1 2 3⏎Shape: 4 5 6
✗Shape: not this⏎9 9⏎9 1⏎Shape: nor this
# LETTERS
A=1,B=3,C=2,D=6¦A = 1, B = 3, C = 2, D = 6¦D=6,C=2,B=3,A=1¦A=1,B=4,C=2,D=8
✗A=2,A=1,B=3,C=2,D=6¦A=1,B=3,C=2,D=6,A=1¦A=9,B=9,C=9,D=9,A=1,B=3,C=2,D=6¦A=1,B=0,B=3,C=2,D=6
✗A=1,B=3,C=7,C=2,D=6¦A=1,B=3,C=2,D=5,D=6¦A=0_1,B=3,C=2,D=6¦A=01,B=3,C=2,D=6¦A=+1,B=3,C=2,D=6¦A=1,B=3,C=2,D=006
✗A=1,B=3,C=2,D=\u0666
# KAKURASU
1 0⏎0 1¦10⏎01¦[1, 0]⏎[0, 1]¦[[1, 0],⏎[0, 1]]
✗1 0 or not⏎0 1¦1 0⏎0 1, or not¦12 0⏎0 1¦-1 0⏎0 1¦1 0 9⏎0 1¦1 0 weeks⏎0 1¦1.0⏎0 1¦x1 0⏎0 1¦1 0⏎0 1 # no
✗not 1 0⏎0 1
# SURVO
9 1 10⏎8 5 13⏎17 6 23¦9 1 10⏎8 5 13⏎17 6 23⏎¦ 9  1 10⏎8 5 13⏎17 6 23
✗9 1 10 or not⏎8 5 13⏎17 6 23¦9 1 10⏎8 5 13⏎17 6 23⏎or not¦9 x 1 10⏎8 5 13⏎17 6 23
✗the answer⏎9 1 10⏎8 5 13⏎17 6 23¦9 1 10⏎8 5 13⏎17 6 23 weeks¦9 | 1 | 10⏎8 5 13⏎17 6 23
✗9 1 10⏎8 5.5 5 13⏎17 6 23¦9 1 10⏎8 5 13⏎17 6 23 # no¦9 1 10 1.5⏎8 5 13⏎17 6 23¦1_0_ 9 1 10⏎8 5 13⏎17 6 23
# KNIGHTS
Daniel is a knight, and Lily is a knave.¦Daniel is a knight and Lily is a knave¦Lily is a knave, Daniel is a knight
daniel is a Knight, lily is a Knave¦(Daniel is a knight), (Lily is a knave)¦Daniel knight, Lily knave
Therefore, Daniel is a knight, and Lily is a knave.
✗Daniel is a knight, and Lily is a knave, or not¦Daniel is a knight, and Lily is a knave or not
✗Daniel is a knight, and Lily is a knave⏎or not¦Daniel is a knight, and Lily is a knave, and not
✗Daniel is a knight, and Lily is a knave. Not!¦Daniel is a knight, and Lily is a knave but not really
✗Not: Daniel is a knight, and Lily is a knave.¦It is false that Daniel is a knight, and Lily is a knave.
✗Daniel is a knight, and Lily is a knave, and Lily is a knave.¦Daniel is a knight, knave, and Lily is a knave.
✗neither Daniel is a knight, nor Lily is a knave¦Lily Daniel is a knight, and Lily is a knave.
✗Daniel is a knight, and Lily is a knave. Daniel¦I doubt Daniel is a knight, and Lily is a knave.
✗Daniel is a knight, and Lily is a knave?
# HEROES
Zoey is a hero, Ella is a villain, and Ava is a villain.¦Ava is a villain, Zoey is a hero and Ella is a villain
✗Zoey is a hero, Ella is a villain, and Ava is a villain, or not
✗Zoey is a hero, Ella is a villain, and Ava is a villain or not
✗Zoey is a hero, Ella is a villain, and Ava is a villain⏎or not
✗Zoey is a hero, Ella is a villain, and Ava is a villain, and not
✗Zoey is a hero, Ella is a villain, and Ava is a villain. Not!
✗Zoey is a hero, Ella is a villain, and Ava is a villain but not really
✗Who knows? Zoey is a hero, Ella is a villain, and Ava is a villain
✗if Zoey is a hero, Ella is a villain, and Ava is a villain¦Zoey is a hero, Zoey Ella is a villain, Ava is a villain
✗Zoey is a hero, villain Ella is a villain, Ava is a villain
""",
)
