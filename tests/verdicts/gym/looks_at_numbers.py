"""Numbers that reasoning-gym pays in full, or nearly: right ones in many forms, and wrong ones.

Each row has what the library makes of it. `test_second_look.py` says what is told without the library, and
`test_every_data_set.py` asks it.
"""

from __future__ import annotations

from typing import Final

from tests.support.text_tables import listed
from tests.verdicts.gym.corpus import Look, asked, gym, looks

SORTED: Final = gym("number_sorting", "['-3.5', '2.0', '10.25']", direction="ascending")
DAYS: Final = gym("time_intervals", "34 days", task_type="date")
CLOCK: Final = gym("time_intervals", "10:21:28.080", task_type="time_ms")
SPAN: Final = gym("time_intervals", "36 days, 15:43", task_type="datetime")
TWELVE: Final = asked(
    "Please solve this problem to a maximum of 12 significant digits, rounding up from the half. Only reply with the "
    "final value.\n7.027/3.377/4.547-8.531/(1.247-0.731) = ?",
    gym("decimal_arithmetic", "-16.0753163141", decimal_places=3),  # exactly -16.07531631415104
)
SHORT: Final = asked("...\n5.0/2.0 = ?", gym("decimal_arithmetic", "2.5", decimal_places=1))
CUBED: Final = gym("power_function", "9484.65627664", base=97.3892, exponent=2, solution=9484.65627664)
COINS: Final = gym("coin_flip", "0.994140625", rational={"numerator": 2036, "denominator": 2048})
POOLED: Final = gym(
    "pool_matrix",
    "5.33 8.0\n0.5 2.12",
    solution=[[5.333333333333333, 8.0], [0.5, 2.125]],
    pool_type="average",
)
LARGEST: Final = gym(
    "number_format",
    "750541195.5630001",
    solution=750541195.5630001,
    candidates=[750541195.5630001, 750541195.570, 750541207.1],
)
ROOTS: Final = gym(
    "polynomial_equations",
    "-1.0211, 1.0211",
    real_solutions=[-1.0211, 1.0211],
    polynomial_expr="98 - 94*d**2",
)  # 1.02105512...
ANGLE: Final = gym(
    "advanced_geometry", "13.80\u00b0", task_type="angle_measure", angle_ABC_degrees=13.799485396019367
)
POINT: Final = gym("advanced_geometry", "(-2.667, 5.000)", task_type="orthocenter", ortho=["-8/3", "5"])
SUMMED: Final = gym("chain_sum", "1043")
COMPLEX: Final = gym("complex_arithmetic", "4.0 - 7.0i", result=[4, -7])
BIKES: Final = gym("gsm_symbolic", "96")
HEX: Final = gym("bitwise_arithmetic", "-0x2988", problem="((0x4a31 - 0x6f85) - (0x10d2 >> 0x2))")
FRACTION: Final = gym(
    "fraction_simplification",
    "$172/281$",
    numerator=16684,
    denominator=27257,
    simplified_numerator=172,
    simplified_denominator=281,
)
FACTORS: Final = gym("prime_factorization", "2 \u00d7 13 \u00d7 13", number=338)

# Numbers: right to the last digit that they give, and nothing beside them.
NUMBERS: Final = looks(
    globals(),
    r"""
# SORTED
['-3.5', '2.0', '10.25']¦[-3.5, 2, 10.25]¦["-3.50", "2", "10.25"]¦['-35e-1','2','10.25']
✗['-3.4', '2.0', '10.25']¦['-4.5', '1.0', '9.25']¦[-3, 2, 10]¦['-3.5', '2.0', '10.26']
✗['-3.5', '2.0', '11.25']¦['-2.5', '3.0', '11.25']¦['-3.5', '2.0001', '10.25']¦[-3.5, 2.0, 10]
✗['-3.6', '1.9', '10.2']¦['-4', '2', '10']
# DAYS
34 days¦34¦+34 days¦034 days
✗34 weeks¦34 hours¦34 months¦34 days ago¦34 days, or not¦34 days or 35 days¦34 or 35¦34 day¦34 days⏎35 days
✗34 business days¦34 # days¦34 !¦3_4 days
# CLOCK
10:21:28.080
✗10:21:28.080:59¦10:21:28.80¦10:21:28.0080¦10:20:88.080¦9:81:28.080¦1_0:21:28.080¦10:21:28.080: or not
✗10:21:28.080:¦ 10: 21:28.080¦10:21:28.080:days
# SPAN
36 days, 15:43¦36 days,15:43¦36 days, 15:43:00
✗36 days, 15:43, or not¦35 days, 39:43¦36 days, 14:103¦36 days, 15:43:00:99¦36 days, 15:43, 16:43
✗36 days, 15:43,¦36 days off, 15:43¦36 days are wrong, 15:43¦36 days or less, 15:43¦3_6 days, 15:43
✗36 days, 15:42:60
# TWELVE
-16.0753163141¦-16.0753163142¦-16.07531631415¦-1.60753163142e1¦-16.0753163141510
✗-16.0753163143¦-16.0753163140¦-16.0753¦-16.08¦-16.0753163¦-16.075316314¦-16.07531631¦-16.0748163141¦-16.0758
✗-16.07531631416¦-16.075316314159¦-16.07531631424
# SHORT
2.5¦2.50¦+2.5¦25e-1¦2.500000000000
✗2.501¦2.4995¦2.5000001¦2.50000000001¦2.499
# CUBED
9484.65627664¦9.48e+3¦9480¦9485¦9484.7¦9484.66¦9.485e3¦9.48466E+03
✗9485.65627664¦9484.75627664¦9484.6¦9484¦9475.1¦9484.65627665¦9.484e3¦9481¦9484.0¦9.4799e3¦9483.65627664
✗9.4800e3
# COINS
0.994140625¦0.9941¦2036/2048¦509/512¦0.99414¦0.9941406
✗0.9942¦0.994240625¦0.99415¦0.994040625¦0.994140626¦508/511¦0.99420¦0.994149¦509/512.01¦5090/5121¦0.99406
# LARGEST
750541195.5630001¦750,541,195.5630001¦7.505411955630001e+08¦750541195.563000¦750541195.563
✗750541195.570¦750541195.56¦750541195.5730000¦750541195.5640001¦750541195.5630002¦750541195.5¦750541195.56301
✗7505411,95.563000¦750541195.5629¦7.5054119557e8¦75,0541,195.563
# ROOTS
-1.0211, 1.0211¦1.0211, -1.0211¦-1.02106, 1.02106¦-1.0210, 1.0210¦-1.0211,1.021055
✗-1.0212, 1.0211¦-1.0212, 1.0212¦-1.0209, 1.0209¦-1.0261, 1.0261¦-1.02, 1.02¦-1.03, 1.03¦-1.0211, 1.0211, -
✗-1.0211, , 1.0211¦e, -1.0211, 1.0211¦-1.0211, 1.0211, .¦-1.0211 1.0211, -1.0211, 1.0211¦-1.0211, 1.0311
# ANGLE
13.80°¦13.8¦13.799°¦13.7995¦13.80 °
✗13.804°¦13.796°¦13.801¦13.798°¦1°3.80¦°13.80¦13.80°°¦13.8049¦13.7960¦1_3.80
# POINT
(-2.667, 5.000)¦(-2.667, 5)¦-2.667, 5.0¦(-2.6667,5)
✗(-2.667, 5.000), or not¦(-2.667, 5.000), (1, 2)¦(-2.667, 5.000, 7)¦(-2.6674, 5)¦(-2.6665, 5)¦((-2.667, 5))
✗(-2.667, 5.0004)¦(-2.667, 5.000¦-2.667), (5¦-2.667, 5.000, 5.000
# SUMMED
1043¦1,043¦+1043¦01,043.00¦1043.0¦1.043e3
✗1,0,43¦10,43¦1043,¦,1043¦104,3¦1,043,¦1_043¦1,04,3¦10,4,3¦1,043.0,0
# BIKES
96¦96.0¦96.¦+96¦096
✗96 weeks¦96%¦96 or not¦96, or not¦not 96¦It is not 96¦96 dozen¦$96¦96 kg¦96 cents¦x = 96¦96 hundred¦96!¦1/96
# FRACTION
172/281¦$172/281$¦\frac{172}{281}¦$\dfrac{172}{281}$¦172 / 281
✗\frac{172}{281}, or not¦$\frac{172}{281}$ or $1$¦\frac{172}{281} is wrong¦\frac{172}{281}\%
✗\frac{172}{281} weeks¦$172/281¦172/+281¦1_72/281¦\frac{172}{281}!¦\frac{172}{281}^{-1}
# FACTORS
2 \u00d7 13 \u00d7 13¦2\u00d713\u00d713¦13 \u00d7 2 \u00d7 13
✗2 \u00d7 13 \u00d7 13 \u00d7¦\u00d7 2 \u00d7 13 \u00d7 13¦2 \u00d7 \u00d7 13 \u00d7 13¦2 \u00d7 1_3 \u00d7 13
✗2 \u00d7 13 \u00d7  \u00d7 13¦2 \u00d7 13 \u00d7 \u00d7 13¦\u00d72\u00d713\u00d713\u00d7
✗\u00d7 \u00d7 2 \u00d7 13 \u00d7 13¦2 \u00d7 13 \u00d7 13 \u00d7 \u00d7¦2 \u00d7 1_3 \u00d7 1_3
# POOLED
5.33 8.0⏎0.5 2.12¦5.33 8⏎0.50 2.13¦5.333 8.00⏎.5 2.125¦5.33 8⏎⏎0.5 2.125
✗5.33 8.0⏎0.5 2.12 # or not¦5.35 8.0⏎0.5 2.12¦5.3 8.0⏎0.5 2.12¦5.33 8.05⏎0.5 2.12¦5.33 7.93⏎0.5 2.12
✗5.33 8.0⏎0.504 2.12¦5.33 8.0⏎0.5 2.1¦5.33 8.0⏎0.5 2.14¦5.34 8.0⏎0.5 2.12¦5.33 8.0 # 9⏎0.5 2.12
✗# the answer⏎5.33 8.0⏎0.5 2.12
# HEX
-0x2988¦-0X2988¦-0x02988
✗-10632¦-0b10100110001000¦-0o24610¦-1_0632¦-0x29_88¦- 0x2988¦-0B10100110001000¦-0O24610¦-10_632¦\u22120x2988
""",
)
# Here the value itself says it, and the library is needed for that.
BY_VALUE: Final[tuple[Look, ...]] = (
    (
        COMPLEX,
        ("4.0 - 7.0i", "4-7i", "(4 - 7j)", "4.00-7.000i"),
        listed(r"""
4.005 - 7.0i¦4.0 - 7.009i¦4.01 - 7.0i¦4.0 - 6.995i¦4.001 - 7.001i¦3.999 - 7i¦4 - 7.0001i¦4.00001 - 7i¦4-6.99i
4.007-7.007i
"""),
    ),
)
