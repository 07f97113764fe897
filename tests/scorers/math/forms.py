r"""Right answers in other forms than their references, and near misses, by class; math-verify's own word beside each.

In: nothing. Out: pairs of a reference and the content of a box, judged as a careful teacher would who sees no more than
these two. A near miss differs from a right answer in one thing: a sign, a bound, a unit, a digit, an order. Where
teachers would disagree there is no pair. `†` stands before an answer that math-verify takes with its defaults; a hang
(`∞`: it is still at work after five seconds) or an error is a no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.support.text_tables import Pair, paired_right_and_wrong


class Form(NamedTuple):
    reference: str
    answer: str
    is_taken: bool
    hangs: bool = False


def _forms(table: str) -> tuple[dict[str, tuple[Form, ...]], ...]:
    judged = paired_right_and_wrong(table)
    return tuple(
        {kind: tuple(_form(*pair) for pair in judged[kind][is_near]) for kind in judged} for is_near in (0, 1)
    )


def _form(reference: str, said: str) -> Form:
    answer = said.removeprefix("† ").removeprefix("∞ ")
    return Form(reference, answer, said.startswith("†"), said.startswith("∞"))


def pairs(table: Mapping[str, Iterable[Form]]) -> dict[str, tuple[Pair, ...]]:
    """Return a table without math-verify's word."""
    return {kind: tuple((form.reference, form.answer) for form in forms) for kind, forms in table.items()}


def matrix(rows: int, columns: int) -> str:
    lines = (" & ".join(str(row * column) for column in range(1, columns + 1)) for row in range(1, rows + 1))
    return r"\begin{pmatrix} " + r" \\ ".join(lines) + r" \end{pmatrix}"


def polynomial(degree: int) -> str:
    return " + ".join(f"{power}x^{{{power}}}" for power in range(degree, 0, -1))


def nested(opening: str, core: str, depth: int) -> str:
    return opening * depth + core + "}" * depth


SQUARES = [str(number * number) for number in range(1, 301)]
DIGITS = "8675309241" * 300
POWER = str(3**5000)

RIGHT, NEAR = _forms(r"""
# units
12 <== † 12\text{ meters} ✗ 13\text{ meters} ;; 9.8\text{ m/s}^2 <== † 9.8\ \mathrm{m/s^2} ✗ † 9.8\text{ m/s}
340\text{ m/s} <== † 340 ✗ 341 ;; 5\text{ m} <== ✗ † 5\text{ cm} ;; 1\text{ kg} <== ✗ 100\text{ g}
15\text{ kg} <== † 15\,\mathrm{kg} ;; 90\text{ minutes} <== 1.5\text{ h} ;; 36\text{ inches} <== 3\text{ feet}
7.5\text{ cm}^2 <== † 7.5\ \text{cm}^2 ;; 20\,\mathrm{cm} <== ✗ † 20\,\mathrm{mm}
1\text{ m} <== 100\text{ cm} ✗ 10\text{ cm} ;; 32\text{ Celsius} <== ✗ † 32\text{ Fahrenheit}
1000\text{ g} <== 1\text{ kg} ;; 4\pi <== † 4\pi\text{ cm}^3 ;; \$3.50 <== 350\text{ cents}
20\text{ m/s} <== 72\text{ km/h} ✗ 36\text{ km/h} ;; 37\text{ degrees C} <== † 37\,^{\circ}\mathrm{C}
2.5\text{ L} <== 2500\text{ mL} ✗ 250\text{ mL} ;; 100\text{ K} <== ✗ † 100\text{ degrees Celsius}
30\text{ min} <== \frac{1}{2}\text{ hour} ;; 0.5\ \mathrm{A} <== ✗ † 0.5\ \mathrm{mA}
48 <== † 48\text{ square units} ;; 100\text{ degrees Fahrenheit} <== † 100^\circ\text{F} ✗ † 100^\circ\text{C}
1\text{ m}^2 <== 10^4\text{ cm}^2 ✗ 100\text{ cm}^2 ;; 3\text{ weeks} <== 21\text{ days} ✗ 14\text{ days}
25 miles per hour <== 25 mph ;; 300\text{ K} <== † 300\text{ kelvins} ;; 72\text{ degrees Fahrenheit} <== † 72
5\sqrt{3}\text{ km} <== † 5\sqrt{3} ;; 60\text{ m/s} <== ✗ † 60\text{ km/h} ;; 6\text{ km} <== ✗ † 6\text{ kg}
64\text{ ft} <== † d = 64\text{ ft} ;; 25 <== † 25^\circ\text{ Celsius} ;; 8\text{ cm}^3 <== ✗ † 8\text{ cm}^2
100^\circ\text{C} <== † 100\text{ degrees Celsius} ✗ † 100\text{ K} ;; 3\text{ minutes} <== ✗ † 3\text{ hours}
-40\text{ Celsius} <== -40^\circ C ;; 140\text{ min} <== ✗ 2.5\text{ h} ;; 7.5\text{ cm} <== ✗ -7.5\text{ cm}
12\text{ feet} <== ✗ † 12\text{ inches} ;; 4\text{ cents} <== ✗ † 4\text{ dollars}
-40^\circ\text{C} <== ✗ † -40^\circ\text{F} ;; 37^\circ\text{C} <== ✗ 38\text{ degrees C}
# the same text
2^{2^{2^{2^{2^2}}}} <== † 2^{2^{2^{2^{2^2}}}} ✗ 2^{2^{2^{2^{2^3}}}} ;; (10^{9})! <== † \left(10^{9}\right)!
9^{ 9^{ 9^9 } } <== † 9^{9^{9^9}} ;; 10^{10^{10^{34}}} <== † $10^{10^{10^{34}}}$ ✗ ∞ -10^{10^{10^{34}}}
(1+\frac{1}{2^{100}})^{2^{100}} <== † \left( 1 + \dfrac{1}{2^{100}} \right)^{2^{100}}
\binom{10^9}{5 \cdot 10^8} <== † \binom{10^9}{5\,\cdot\,10^8}
\prod_{k=1}^{10^7}(1+\frac{1}{k!}) <== † \prod_{k = 1}^{10^7} \left(1 + \frac{1}{k!}\right)
\sum_{n=1}^{10^{12}} \frac{1}{n^n} <== † \sum_{n=1}^{10^{12}} \dfrac{1}{n^n}
3 \uparrow\uparrow\uparrow 3 <== † 3\uparrow\uparrow\uparrow 3
2024^{2023^{2022}}\bmod 1000 <== † 2024^{2023^{2022}} \bmod 1000
\begin{pmatrix}2&1\\1&1\end{pmatrix}^{10^{100}} <== † \begin{pmatrix} 2 & 1 \\ 1 & 1 \end{pmatrix}^{10^{100}}
# hard references
\{x \mid x > 2\} <== \{x : x > 2\} ✗ \{x : x \ge 2\} ;; \u22124 ≤ y ≤ 4 <== † -4 \le y \le 4 ✗ -4 \le y < 4
x = 1 \text{ or } x = -3 <== † x = -3 \text{ or } x = 1 ✗ x = -3 \text{ or } x = -1 ;; A_1=5 <== † A_1 = 5
x < -1 or x > 4 <== † x < -1 \text{ or } x > 4 ✗ x < -1 \text{ or } x \ge 4 ;; x=-7, x=4 <== † -7, 4 ✗ x = -7
y\leq 0\text{ or }2<y<6 <== † y \le 0 \text{ or } 2 < y < 6 ✗ y < 0 \text{ or } 2 < y < 6
(2, ∞) <== (2, \infty) ✗ [2, \infty) ;; √17 <== \sqrt{17} ✗ -\sqrt{17} ;; \text{the answer is } 12 <== 12 ✗ 21
(\u2212∞, 1) \u222a (3, ∞) <== (-\infty,1)\cup(3,\infty) ✗ (-\infty,1)\cup(-3,\infty) ;; v_{\max} = 3 <== ✗ -3
x ≤ 5 <== † x \le 5 ✗ x < 5 ;; x ≥ \u22122 <== † x \geq -2 ✗ x \ge 2 ;; 2 · 3^5 <== 2 \cdot 3^5 ✗ 3 \cdot 3^5
x ≠ 0 <== † x \ne 0 ✗ x = 0 ;; v_{\max}=3 <== † v_{\max} = 3
±3 <== † \pm 3 ✗ 3 ;; \frac 1 2 <== † \frac{1}{2} ✗ \frac 2 1 ;; x=1, x=2 <== † x = 2, x = 1 ✗ x=1, x=3
6 \u00d7 10^4 <== † 6\times 10^4 ✗ 6\times 10^5 ;; There are 17 students <== \text{17 students}
3π/4 <== † \frac{3\pi}{4} ✗ \frac{4\pi}{3} ;; e - 1 <== \mathrm{e} - 1 ✗ \mathrm{e} + 1 ;; \frac 34 <== † 0.75
x ∈ [0, 1] <== x \in [0,1] ✗ x \in (0,1] ;; \frac1{3} <== † \frac{1}{3} ✗ \frac{1}{4} ;; 5 apples <== † 5 ✗ 6
\mathrm{e}^2 <== e^2 ✗ \mathrm{e}^3 ;; A_1 = 5 <== † 5 ✗ A_1 = 6 ¦ A_2 = 5 ;; P_{\text{max}} = 240 <== † 240
# digit groups
12345 <== 12\,345 ✗ 12\,346 ;; 20000 <== ¥20,000 ✗ ¥2,000 ;; 123 <== ✗ 1,2,3 ;; £6200 <== ✗ 6,200\text{ euros}
1234567 <== 1\;234\;567 ✗ 1\;234\;576 ;; 1250 <== † 1{,}250 ¦ 1 250 € ;; 2{,}000{,}000 <== † 2000000 ✗ 2{,}000
10\:000 <== 10000 ✗ 1000 ;; 9876 <== 9\ 876 ✗ 9\ 867 ;; 4500 <== €4,500 ✗ 45~000 ;; 2^{21} <== ✗ 1\,048\,576
45000 <== 45~000 ;; 65,536 <== 65 536 ;; 2500 <== £2\,500 ;; 1300 <== ✗ \$1,200 ;; 1875 <== ✗ \$18.75
7500 <== 7\u2009500 ;; 11644 <== † 11,\!644 ;; £750 <== 750 ;; 18.75 <== † \$18.75 ;; 125000 <== ✗ 1,250.00
86\u00a0400 <== 86400 ✗ 86 400.5 ;; 31536000 <== 31\u202f536\u202f000 ;; \$1450 <== † 1{,}450\text{ dollars}
299 792 458 <== 299792458 ✗ 299792459 ;; €6200 <== 6,200\text{ euros} ;; -31536000 <== ✗ 31\u202f536\u202f000
1200 <== † \$1,200 ;; -40320 <== -40\,320 ;; 350 <== \text{€}350 ;; £4,500 <== ✗ €4,500 ;; 360 <== ✗ 3,600 USD
980 <== 980€
3600 <== 3,600 USD ;; 10^6 <== 1 000 000 ;; 1.234 <== ✗ 1\,234 ;; 65,356 <== ✗ 65 536 ;; 25000 <== ✗ £2\,500
2^{20} <== 1\,048\,576 ;; 2450 <== † \$2,\!450.00 ;; 7,501 <== ✗ 7\u2009500 ;; 11,\!944 <== ✗ 11,644
# mixed numbers
\frac{3}{2} <== 1 1/2 ;; 5.125 <== † 5\tfrac{1}{8} ;; 1.25 <== 1 1/4\text{ cups} ;; 10.01 <== ✗ 10\frac{1}{10}
1.5 <== † 1\frac{1}{2} ;; 3 5/8 <== \frac{29}{8} ;; \frac{8}{5} <== ✗ 4 2/5 ;; 4 <== ✗ 12\frac{1}{3}
\frac{11}{4} <== † 2 \frac 3 4 ;; 2\frac{1}{3} <== † \frac{7}{3} ;; 2 \frac 3 4 <== ✗ \frac{3}{2}
2.75 <== 2 3/4 ;; -2 1/2 <== -2.5 ;; 1 1/2 <== ✗ 1*1/2 ;; 2 3/4 <== ✗ 23/4 ;; 8 1/3 <== ✗ 7 1/3
\frac{10}{3} <== † 3\frac13 ;; \frac{131}{16} <== † 8\ \frac{3}{16} ;; 2\frac{3}{4} <== ✗ 2 \cdot \frac{3}{4}
-\frac{5}{4} <== † -1\frac{1}{4} ;; \frac{22}{5} <== † 4\,\frac{2}{5} ;; \frac{11}{3} <== ✗ 2 3/4 ¦ 3\frac13
12\frac{1}{3} <== 12 1/3 ;; 10.1 <== † 10\frac{1}{10} ;; \frac{9}{4} <== x = 2 1/4 ;; 5.18 <== ✗ 5\tfrac{1}{8}
\frac{41}{6} <== † 6\dfrac{5}{6} ;; -\frac{3}{4} <== ✗ -1\frac{1}{4} ;; 6\frac{1}{6} <== ✗ 6\frac{5}{6}
3\frac{1}{7} <== † \frac{22}{7} ✗ \frac{3}{7} ;; 1\frac{1}{2} <== ✗ 11/2 ¦ \frac{1}{2} ¦ -1 1/2
# repeating decimals
\frac13 <== 0.\overline{3} ✗ 0.0\overline{3} ;; \frac{1}{3} <== 0.\dot{3} ¦ 0.333\ldots ;; 0.7 <== ✗ 0.\bar{7}
\frac16 <== 0.1\overline{6} ;; 1/7 <== 0.\dot{1}4285\dot{7} ;; \frac35 <== ✗ 0.\overline{6}
1/3 <== 0.(3) ;; \frac{4}{33} <== 0.(12) ;; 1/6 <== 0.1666... ;; \frac79 <== 0.\bar{7} ;; 0.\dot{3} <== ✗ 0.33
\frac17 <== 0.\overline{142857} ✗ 0.\overline{142875} ;; -\frac49 <== -0.\overline{4} ✗ 0.\overline{4}
\frac{3}{11} <== 0.\overline{27} ;; 0.08\overline{3} <== \frac{1}{12} ;; 0.1\dot{8} <== ✗ 0.\dot{1}\dot{8}
1 <== 0.\overline{9} ;; \frac53 <== 1.\overline{6} ;; \frac{2}{3} <== 0.666\dots ;; 0.\overline{45} <== 0.(45)
0.8\overline{3} <== \frac{5}{6} ✗ 0.83 ;; \frac{3}{25} <== ✗ 0.(12) ;; 2.1\overline{36} <== ✗ 2.\overline{136}
\frac{47}{22} <== 2.1\overline{36} ;; \frac{2}{11} <== 0.\dot{1}\dot{8} ;; \frac{1}{13} <== ✗ 0.08\overline{3}
0.3 <== ✗ 0.\overline{3} ;; -\frac13 <== ✗ 0.333\ldots ;; 1.6 <== ✗ 1.\overline{6} ;; 0.9 <== ✗ 0.\overline{9}
0.\overline{16} <== ✗ 0.1\overline{6} ;; \frac{27}{100} <== ✗ 0.\overline{27} ;; \frac{3}{5} <== ✗ 0.666\ldots
3/10 <== ✗ 0.(3)
# ordinals
5 <== † 5th ¦ 5^{th} ✗ 6^{th} ¦ 5^{t} ;; 2 <== † 2\text{nd} ¦ 2^{nd} ✗ 22nd ;; 100 <== ✗ 101\text{st} ¦ 1000th
7 <== 7^{\text{th}} ;; 1000 <== † 1000th ;; 8\text{th} <== † 8 ;; 4.5 <== ✗ \text{4th} ;; 3^{rd} <== ✗ 3^3
1 <== † 1st ;; 22 <== 22nd ✗ 21st ¦ 2^{nd} ;; 20 <== 20^{th}\text{ term} ;; 6 <== \text{the }6\text{th} ✗ 5th
3 <== 3^{\mathrm{rd}} ;; 13^{\text{th}} <== 13 ;; -3 <== ✗ 3^{\text{rd}} ;; 14^{th} <== ✗ 13^{th}
101 <== † 101\text{st} ;; 11 <== \text{11th} ✗ 1st ;; 33^{\text{rd}} <== 33^{rd} ;; 8 <== ✗ \text{8th and 9th}
12th <== † 12 ;; 3rd <== ✗ 30th
40th <== 40^{\text{th}} ;; 21 <== 21^{\textrm{st}} ;; \frac{1}{12} <== ✗ 12th ;; 7^{\text{th}} <== ✗ 7^2
# degrees
\frac{\pi}{2} <== 90^\circ ✗ 90 ;; \frac{\pi}{6}, \frac{5\pi}{6} <== 30^\circ, 150^\circ ✗ 30^\circ, 120^\circ
\frac{\pi}{4} <== 45° ✗ 22.5° ;; \frac{5\pi}{4} <== ✗ 135^\circ ;; 150^\circ <== ✗ \frac{2\pi}{3}
60^\circ <== \frac{\pi}{3} ¦ † 60\text{ degrees} ;; \frac{\pi}{3} <== ✗ 45^\circ ¦ 30^\circ ¦ -60^\circ
\frac{\pi}{6} <== 30^{\circ} ;; 75° <== 75 ;; \frac{\pi}{15} <== ✗ 15^\circ ;; \frac{\pi}{2}\degree <== ✗ 90
180^\circ <== \pi ;; 30^\circ <== 30\,\degree ;; 45 <== ✗ \frac{\pi}{4} ;; 180 <== ✗ \pi ;; 61^\circ <== ✗ 60°
2\pi <== 360^\circ ✗ 180^\circ ;; 315^{\circ} <== \frac{7\pi}{4} ;; -315^\circ <== ✗ \frac{7\pi}{4}
-\frac{\pi}{4} <== -45^\circ ;; \frac{2\pi}{3} <== 120^\circ ;; \frac{\pi}{8} <== 22.5^\circ
135^\circ <== \frac{3\pi}{4}\text{ radians} ;; 90\degree <== \frac{\pi}{2} ✗ \frac{\pi}{3}
75^\circ <== 75° ¦ 75\degree ¦ † 75^\degree ¦ † 75^{\degree} ✗ 57\degree ¦ -75\degree ;; 36^\circ <== ✗ † 36'
\frac{\pi}{5} <== 36^\circ ;; \pi/12 <== 15^\circ ;; 1\text{ rad} <== ✗ † 1^\circ ;; 7.5^\circ <== ✗ 75\degree
\theta = \frac{5\pi}{6} <== \theta = 150^\circ ✗ \theta = 30^\circ ;; 40^\circ <== † \angle A = 40^\circ
# inequalities
[3,\infty) <== x \ge 3 ✗ x > 3 ¦ x \le 3 ¦ x \ge -3 ;; x < 10 <== † x \in (-\infty, 10) ✗ (-\infty, \infty)
x \ge 7 <== † [7,\infty) ✗ (7,\infty) ¦ x = 7 ;; a \le 7 <== † a \leq 7 ;; k \le \frac{9}{4} <== † k \leq 2.25
x \ge 3 <== † 3 \le x ✗ 3 \ge x ;; x \geq 6 <== † x\in[6,+\infty) ;; x \ge 1 <== ✗ x \in (-\infty, 1]
(-\infty,5) <== x<5 ;; x \le -2 <== † (-\infty,-2] ;; n \geq 100 <== † n >= 100 ;; x < 5 <== ✗ (-\infty, 5]
(\frac12, \infty) <== x > \frac{1}{2} ✗ x > \frac13 ;; x > \sqrt{2} <== † \left(\sqrt{2}, +\infty\right)
y < -4 <== † -4 > y ✗ -4 < y ;; [0,\infty) <== t \geqslant 0 ;; x \in (-1, \infty) <== x > -1
m > 0 <== 0 < m ;; x < -2 <== ✗ x < 2 ;; x > 4 <== ✗ y > 4 ;; t > 0 <== ✗ [0, \infty)
x < -\pi <== † (-\infty, -\pi) ;; x \ge 6 <== ✗ x \ge 60 ¦ [6,7) ;; k \le \frac94 <== ✗ k \le 2.26
# chains
(1,5] <== 1 < x \le 5 ✗ 1 \le x \le 5 ¦ 1<x<5 ;; [-1,0) <== -1 \leqslant m < 0 ✗ -1 \le m \le 0
-2 \le x < 3 <== † [-2, 3) ✗ [-2,3] ;; |x| < 3 <== -3 < x < 3 ✗ -3 \le x \le 3
1 < x \le 5 <== 5 \ge x > 1 ✗ 5 > x > 1 ;; [0,10] <== 0 \le t \le 10 ✗ 0 \le t \le 1
0 < k < 4 <== † (0, 4) ✗ (-4, 4) ;; [0.5, 1.5) <== \frac{1}{2} \le x < \frac{3}{2} ✗ \frac12 \le x < \frac52
-1 \le y \le 1 <== † [-1,1] ✗ [-1,1) ;; 1 < x \le 4 <== x > 1 \text{ and } x \le 4 ✗ x>1 \text{ or } x \le 4
2 < x \le 7 <== † x \in (2, 7] ✗ 2 < x \le 8 ¦ 2 < y \le 7 ;; \left(\frac{1}{e}, e\right] <== e^{-1} < x \le e
10 \le n < 100 <== 100 > n \geq 10 ✗ 10 < n < 100 ;; -5 \le x \le 5 <== † -5 <= x <= 5 ✗ -5 \le x \le -5
[-\sqrt{2}, \sqrt{2}] <== -\sqrt{2} \le a \le \sqrt{2} ✗ \sqrt{2} \le a \le -\sqrt{2}
0 \le \theta < \frac{\pi}{2} <== † \left[0, \frac{\pi}{2}\right) ✗ \left[0, \frac{\pi}{3}\right)
1 < x < \frac52 <== † 1<x<2.5
# unions
(-\infty,1)\cup(2,\infty) <== x<1 \text{ or } x>2 ✗ x<1 \text{ or } x \ge 2
x \neq 2 <== † (-\infty,2)\cup(2,\infty) ✗ (-\infty,2)\cup[2,\infty)
x \le -3 \text{ or } x \ge 3 <== (-\infty,-3]\cup[3,\infty) ✗ (-\infty,-3]\cup(3,\infty)
x \ne 1 <== † \mathbb{R}\setminus\{1\} ✗ \mathbb{R}\setminus\{-1\}
(-\infty,0)\cup(0,\infty) <== x \ne 0 ¦ † \mathbb{R}\setminus\{0\} ✗ x \ge 0 ¦ \mathbb{R}
(-\infty,-2)\cup(2,\infty) <== |x| > 2 ✗ |x| \ge 2 ;; (-\infty, 1) \cup (6, \infty) <== x < 1 \lor x > 6
(-\infty,-5)\cup(5,\infty) <== † (5,\infty)\cup(-\infty,-5) ✗ (-\infty,5)\cup(5,\infty)
(0,1)\cup(3,\infty) <== 0<x<1 \text{ or } x>3 ✗ 0<x<1 \text{ and } x>3 ¦ (0,1)
x < 0 \text{ or } x > 4 <== x \in (-\infty, 0) \cup (4, \infty) ✗ x \in (-\infty, 0) \cup (-4, \infty)
[1,3] <== † [1,2]\cup[2,3] ✗ [1,2)\cup(2,3] ;; (-\infty,-4)\cup(-4,4)\cup(4,\infty) <== x \ne \pm 4 ✗ x \ne 4
x < 3 \text{ or } x > 7 <== † x > 7 \text{ or } x < 3 ✗ x > 3 \text{ or } x < 7
[-2,-1) \cup (1,2] <== † x \in [-2,-1) \cup (1,2] ✗ [-2,-1) \cap (1,2]
(-\infty,-0.5]\cup[1.5,\infty) <== x \leq -\frac12 \text{ or } x \geq \frac32
(-\infty,-0.5]\cup[1.5,\infty) <== ✗ x \leq \frac12 \text{ or } x \geq \frac32
\mathbb{R}\setminus\{-1,1\} <== † (-\infty,-1)\cup(-1,1)\cup(1,\infty) ✗ (-\infty,-1)\cup(1,\infty)
\{0\}\cup[2,\infty) <== x = 0 \text{ or } x \ge 2 ✗ x > 2 \text{ or } x = 0
(-\infty,7)\cup(9,\infty) <== (\u2212∞, 7) \u222a (9, ∞) ✗ (7, 9)
# set-builder
(1,2) <== \{x \mid 1<x<2\} ✗ \{x \mid 1 \le x<2\} ;; (-\infty, 0] <== \{y \mid y \le 0\} ✗ \{y \mid y < 0\}
\{x \in \mathbb{R} : x \geq 3\} <== [3,\infty) ✗ (3,\infty) ;; \{x | x > 0\} <== (0,\infty) ✗ (-\infty,0)
\{x \mid x > 5\} <== x > 5 ✗ x < 5 ;; (-\infty,2)\cup(8,\infty) <== \{x \mid x < 2\} \cup \{x \mid x > 8\}
(-\infty,4)\cup(4,\infty) <== \{x : x \ne 4\} ✗ \{x : x = 4\} ;; \{x \mid -3 < x \le 3\} <== (-3, 3] ✗ [-3, 3]
(-\infty,-1)\cup(1,\infty) <== \{x \mid x<-1 \text{ or } x>1\} ✗ \{x \mid x<-1 \text{ and } x>1\}
\{x \mid x > 8\} <== † \{t \mid t > 8\} ;; [0,1) <== \{x \mid 0 \le x < 1\} ✗ \{x \mid 0 \le x \le 1\}
[-2,2] <== \{x \in \mathbb{R} \mid -2 \le x \le 2\} ✗ \{x \in \mathbb{Z} \mid -2 \le x \le 2\}
\left(-\infty,\frac13\right) <== \left\{x \,\middle|\, x < \frac{1}{3}\right\} ✗ \{x \mid x < -\frac13\}
\mathbb{R}\setminus\{-2\} <== \{x\mid x\in\mathbb{R}, x\neq -2\} ✗ \{x\mid x\in\mathbb{R}, x\neq 2\}
[2,\infty) <== \{x \colon 2 \leq x\} ;; \{n \in \mathbb{Z} : 1 \le n \le 3\} <== \{1,2,3\} ✗ \{1,2\} ¦ [1,3]
[1,6) <== \{x \mid x \ge 1 \text{ and } x < 6\} ✗ \{x \mid x \ge 1 \text{ or } x < 6\}
\{x \mid x > 9\} <== ✗ \{t \mid t > 8\} ;; \{x \mid x \ge 2\} <== ✗ † \{2\}
# named values
(1,2) <== † x=1, y=2 ✗ x=2, y=1 ;; (a,b)=(2,5) <== † (2,5) ✗ (5,2) ;; (A,B) = (5,-3) <== † A=5,\; B=-3
3,4,5 <== † a=3, b=4, c=5 ✗ † a=4, b=3, c=5 ;; 50, 4 <== † \mu = 50, \sigma = 4 ✗ \mu = 50, \sigma = 5
x=7, y=-2 <== † (7,-2) ✗ † (-2,7) ;; x=1, y=2 <== † y=2, x=1 ✗ x=2, y=1 ;; (2,-5) <== † h=2\text{ and }k=-5
m=4, n=9 <== † 4, 9 ✗ † 9, 4 ;; \sqrt{2}, 3 <== † r = \sqrt{2}, s = 3 ;; (p,q,r)=(1,4,9) <== ✗ p=1,\ q=4,\ r=8
\left(\frac12,-3\right) <== † x=\frac12,\ y=-3 ✗ x=\frac12,\ y=3 ;; (6,-6) <== † (x,y)=(6,-6) ✗ (x,y)=(-6,6)
0, 11 <== † p=0 \text{ and } q=11 ✗ † p=11 \text{ and } q=0 ;; (x,y)=(4,7) <== † x=4,\quad y=7 ✗ x=7,\quad y=4
(10, 20) <== † x = 10; y = 20 ✗ x = 10 ;; p=1,\ q=4,\ r=9 <== † (p,q,r) = (1,4,9) ;; (5,12) <== ✗ † y=5, x=12
(2,-1,7) <== † A = 2, B = -1, C = 7 ✗ A = 2, B = 1, C = 7 ;; (-1,0,8) <== † x=-1,y=0,z=8 ✗ x=-1,y=0,z=8,w=2
30^\circ, 60^\circ <== † \alpha=30^\circ, \beta=60^\circ ✗ † \alpha=60^\circ, \beta=30^\circ
(3,-4) <== \begin{cases} x=3 \\ y=-4 \end{cases} ✗ \begin{cases} x=-4 \\ y=3 \end{cases}
# bound variables
f(x)=x^2+1 <== f(t)=t^2+1 ✗ f(t)=t^2-1 ¦ f(t)=x^2+1 ;; x \mapsto 2x+b <== † a \mapsto 2a+b ✗ † b \mapsto 2b+b
x \mapsto x^2 <== t \mapsto t^2 ✗ t \mapsto t^3 ;; f(x)=2\cos x <== f(\theta)=2\cos\theta ✗ f(\theta)=2\cos x
f(x)=2x+3 <== f(n)=2n+3 ✗ f(n)=3n+2 ;; f(x)=|x-3| <== f(t)=|t-3| ;; f(x) = 3x - 2 <== y = 3x - 2 ✗ y = 3x + 2
g(x)=\frac1x <== g(u)=\frac{1}{u} ✗ g(u)=u ;; P(x)=x^3-2x+5 <== P(z)=z^3-2z+5 ✗ P(z)=z^3-2z-5
h(x)=\sqrt{x+4} <== h(s)=\sqrt{s+4} ✗ h(s)=\sqrt{s}+4 ;; T(n)=5\cdot 2^n <== T(m)=5\cdot 2^m ✗ T(m)=2\cdot 5^m
f(x)=\ln x <== f(y) = \ln y ✗ f(y) = -\ln y ;; \sum_{i=1}^{n} i^2 <== \sum_{k=1}^{n} k^2 ✗ \sum_{k=1}^{n} k^3
f(x,y)=x+2y <== f(a,b)=a+2b ✗ f(a,b)=2a+b ;; f: x \mapsto \sin x <== f: t \mapsto \sin t ✗ f: t \mapsto \cos t
f(x)=x^2+2x+1 <== f(w)=(w+1)^2 ;; \int_0^x e^{-t^2}\,dt <== † \int_0^x e^{-s^2}\,ds ✗ \int_0^x e^{s^2}\,ds
f^{-1}(x)=\frac{x-1}{2} <== f^{-1}(y)=\frac{y-1}{2} ✗ f^{-1}(y)=\frac{y+1}{2} ;; x^2+1 <== ✗ t^2+1
p(n) = n^2-n <== p(k) = k(k-1) ;; 3x-1 <== ✗ 3t-1
# equalities
5 <== † S = 2+3 = 5 ¦ † \sqrt{9+16} = 5 ✗ S = 2+3 = 6 ¦ † 2 \cdot 3 = 5 ;; 18 <== † \frac12\cdot 9\cdot 4 = 18
\pi r^2 <== † A = \pi r^2 ✗ A = 2\pi r ;; \frac13 <== ✗ \int_0^1 x^2\,dx = \frac12 ;; 13 <== ✗ |z| = \sqrt{13}
12 <== † \frac{1}{2}bh = 12 ;; \sqrt{13} <== † |z| = \sqrt{13} ;; x^2+2x+1 <== † (x+1)^2 = x^2+2x+1
36\pi <== † V = \frac43\pi\cdot 27 = 36\pi ✗ V = \frac43\pi\cdot 27 = 27\pi ;; 14 <== † f(3) = 14 ✗ f(3) = -14
0.5 <== † P(X=1)=0.5 ;; -2 <== † \det A = -2 ;; 100 <== ✗ † 5! = 100
10 <== † \binom{5}{2} = 10 ;; 9 <== † x+y = 9 ;; x + y = 2 <== † 2x + 2y = 4 ;; 24 <== ✗ \frac{1}{2}bh = 12
1 <== † \lim_{x\to 0}\frac{\sin x}{x} = 1 ✗ P(X=1)=0.5 ;; y = x^2+2x+1 <== † y = (x+1)^2 = x^2+2x+1
\frac{1}{3} <== † \int_0^1 x^2\,dx = \frac13 ;; \frac35 <== † \cos A = \frac{3}{5} ✗ \cos A = -\frac{3}{5}
1023 <== † a_{10} = 1023 ✗ a_{10} = 1024 ;; 6 <== † \gcd(48,18)=6 ✗ † 10 = 1+2+3 = 6 ;; 2x+1 <== ✗ † 3x = 2x+1
3.5 <== † E[X] = \frac{7}{2} ;; 36 <== ✗ † \frac12\cdot 9\cdot 4 = 36 ;; 110^\circ <== ✗ \angle ABC = 70^\circ
2x <== † \frac{dy}{dx} = 2x ✗ \frac{dy}{dx} = x^2 ;; y = 2x+1 <== † 2y = 4x+2 ¦ † 2x+1 = y ¦ † y - 2x - 1 = 0
70^\circ <== † \angle ABC = 70^\circ ;; 20 <== ✗ † \binom{5}{2} = 20 ;; \frac{2}{7} <== ✗ E[X] = \frac{7}{2}
6x^2 <== † f'(x) = 6x^2 ;; 4 <== † n(A \cap B) = 4 ;; 7 <== ✗ † \sqrt{9+16} = 7 ;; f(x) = x^2 <== ✗ x^2 = x^2
y = 2x+1 <== ✗ 2x+1 = 2x+1 ¦ 3x = 2x+1 ¦ 5 = 2x+1 ¦ † 2x+1 = 2x+1 = 2x+1 ¦ x + 3 = 2x+1 ;; 2 <== ✗ \det A = -2
# radicals
\sqrt{3+2\sqrt{2}} <== † 1+\sqrt{2} ✗ \sqrt{2}-1 ;; \frac{\sqrt{10}-\sqrt{6}}{2} <== ✗ \sqrt{4+\sqrt{15}}
\sqrt2+\sqrt3 <== † \sqrt{5+2\sqrt{6}} ✗ \sqrt{5-2\sqrt{6}} ;; 2\sqrt2 <== † \sqrt{3+2\sqrt2}+\sqrt{3-2\sqrt2}
5\sqrt2 <== † \sqrt{50} ;; 1 <== \sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5} ✗ \sqrt[3]{2+\sqrt5}-\sqrt[3]{2-\sqrt5}
\frac{1+\sqrt5}{2} <== † \sqrt[3]{2+\sqrt5} ;; \sqrt{11-6\sqrt2} <== † 3-\sqrt2 ✗ 3+\sqrt2
2-\sqrt3 <== † \sqrt{7-4\sqrt3} ;; \sqrt3-1 <== ✗ \frac{2}{\sqrt3-1} ;; 1+\sqrt6 <== ✗ \sqrt{6+\sqrt{20}}
2\sqrt{2} <== † 2^{3/2} ✗ 2^{2/3} ;; \sqrt{2+\sqrt3} <== † \frac{\sqrt6+\sqrt2}{2} ✗ \frac{\sqrt6+\sqrt2}{4}
\frac{\sqrt5}{5} <== † \frac{1}{\sqrt5} ;; \sqrt{10+2\sqrt6+2\sqrt{10}+2\sqrt{15}} <== ✗ \sqrt2+\sqrt3-\sqrt5
3\sqrt[3]{2} <== † \sqrt[3]{54} ;; \sqrt5-2 <== † \sqrt{9-4\sqrt5} ;; \sqrt3-2 <== ✗ \sqrt{7-4\sqrt3}
\sqrt3+1 <== † \frac{2}{\sqrt3-1} ;; 1+\sqrt5 <== † \sqrt{6+\sqrt{20}} ;; 2+\sqrt2 <== † \sqrt[3]{20+14\sqrt2}
\frac{\sqrt{10}+\sqrt{6}}{2} <== † \sqrt{4+\sqrt{15}} ;; 3+\sqrt5 <== † \sqrt{14+6\sqrt5} ✗ -\sqrt{14+6\sqrt5}
\frac{\sqrt6}{4} <== † \sqrt{\frac{3}{8}} ;; 2 <== ✗ \sqrt[3]{-8} ;; \frac{\sqrt3}{4} <== ✗ \sqrt{\frac{3}{8}}
1+\sqrt2 <== † \sqrt[3]{7+5\sqrt2} ¦ † \sqrt[4]{17+12\sqrt2} ✗ \sqrt[3]{7-5\sqrt2} ;; 3 <== † \sqrt{4}+1
-2 <== \sqrt[3]{-8} ;; \sqrt[3]{\frac19}+\sqrt[3]{\frac29}+\sqrt[3]{\frac49} <== ✗ \sqrt[3]{\sqrt[3]{2}-1}
\frac{\sqrt3}{3} <== † \frac{\sqrt{2}}{\sqrt{6}} ✗ \frac{\sqrt{6}}{\sqrt{2}}
5 <== † \sqrt{25} ✗ \sqrt{26} ¦ -\sqrt{25} ;; \frac{1-\sqrt5}{2} <== ✗ \sqrt[3]{2+\sqrt5}
\sqrt2+\sqrt3+\sqrt5 <== † \sqrt{10+2\sqrt6+2\sqrt{10}+2\sqrt{15}} ;; \frac{\sqrt5}{10} <== ✗ \frac{1}{\sqrt5}
\sqrt[3]{\frac19}-\sqrt[3]{\frac29}+\sqrt[3]{\frac49} <== † \sqrt[3]{\sqrt[3]{2}-1} ;; 2\sqrt5 <== ✗ \sqrt{50}
2\sqrt[3]{3} <== ✗ \sqrt[3]{54} ;; 2-\sqrt5 <== ✗ \sqrt{9-4\sqrt5}
# percentages
25\% <== † 25\% ¦ † \frac14 ✗ 2.5\% ¦ 2500 ;; 33\frac{1}{3}\% <== \frac{1}{3} ✗ 33\% ;; 24% <== ✗ \frac{1}{4}
25 percent <== † 25 ;; 7% <== † 0.07 ✗ 0.7 ;; 90 percent <== † 90 ;; 26\% <== ✗ 25\% ;; 0.5\% <== ✗ 0.05\%
12.5\% <== † 0.125 ¦ 12.5\text{ percent} ✗ 0.0125 ;; 30\% <== † x = 30\% ✗ 30\% \text{ or } 40\% ¦ x = 0.03
40\% <== † 40 per cent ✗ 41 per cent ;; \frac{100}{3}\% <== 33\frac{1}{3}\% ;; 75\% <== 75\,\% ✗ \frac{1}{75}
15\% <== † 15% ;; -3% <== † -3\% ;; 3\% <== ✗ -3\%
66\frac{2}{3}\% <== 66 2/3 \% ;; 62.5\% <== † 62.50\% ✗ 62.6\% ;; 1000\% <== 1{,}000\% ✗ 100\%
120\% <== † 1.2 ✗ 12 ;; 20\% <== \text{20\%} ;; 37.5% <== † \frac{3}{8} ;; 37.5\% <== ✗ \frac{8}{3}
# powers and decimals
300000000 <== † 3.0\times10^8 ✗ 3.0\times10^7 ;; \frac{3}{4} <== † \frac{6}{8} ✗ \frac{6}{9} ;; 17 <== † +17
3\times 10^8 <== 3e8 ✗ 3e-8 ;; \frac{1}{16} <== † 0.0625 ✗ 0.625 ;; 162 <== † 3^4\cdot 2 ✗ 3^4\cdot 3
300000 <== † 3 \cdot 10^5 ;; \frac14 <== † .25 ;; 9 <== † 27^{2/3} ✗ 27^{3/2} ;; 3\times10^8 <== ✗ 300000001
\frac18 <== † 2^{-3} ;; 3.5 <== † \frac{-7}{-2} ;; 0.01 <== † 10^{-2} ✗ 10^2 ;; 4.2 <== † 4.20 ✗ 4.02
\frac17 <== † 0.142857 ✗ 0.14 ¦ 0.142867 ;; \frac{7}{12} <== † 7/12 ✗ \frac{12}{7} ;; 0.0001 <== † 1E-4 ✗ 1E-5
\frac23 <== † 0.666667 ¦ † \frac{1}{1+\frac12} ✗ 0.67 ¦ \frac{1}{1-\frac12} ;; 6.02e23 <== 6.02\times 10^{23}
1.6\times 10^{-19} <== † 16\times10^{-20} ;; \frac72 <== ✗ -3.5 ;; 6.02\times 10^{23} <== ✗ 6.02\times10^{22}
\frac{8}{27} <== † \left(\frac{2}{3}\right)^3 ✗ \left(\frac{2}{3}\right)^2 ;; \sqrt6 <== † 2.449490 ✗ 2.45
2^{-3} <== ✗ 2^3
# tuples, matrices and complex numbers
\begin{pmatrix}1&2\\3&4\end{pmatrix} <== † \begin{bmatrix}1&2\\3&4\end{bmatrix} ;; -i <== \frac{1}{i} ✗ i
\begin{pmatrix}1&2\\3&4\end{pmatrix} <== ✗ \begin{bmatrix}1&3\\2&4\end{bmatrix} ;; 2+3i <== ✗ 2-3i ¦ 3+2i
3i+2 <== † 2+3i ;; -1 <== e^{i\pi} ;; (2,-3) <== A(2,-3) ✗ A(-3,2) ;; (1,2),(3,4) <== ✗ (1,2),(4,3)
(1,2) <== \langle 1,2\rangle ✗ \langle 2,1\rangle ¦ (1,2,0) ;; -2 <== † \begin{vmatrix}1&2\\3&4\end{vmatrix}
\langle 3,-1\rangle <== (3,-1) ✗ (3,1) ;; 2i <== (1+i)^2 ✗ (1-i)^2 ;; \sqrt{3}\,i <== † i\sqrt{3} ✗ \sqrt{3i}
\begin{bmatrix}4\\-5\end{bmatrix} <== † \begin{pmatrix}4\\-5\end{pmatrix} ✗ \begin{pmatrix}4\\5\end{pmatrix}
\frac{\sqrt2}{2}+\frac{\sqrt2}{2}i <== † \frac{1+i}{\sqrt2} ;; (2,8,-1) <== † (\sqrt{4}, 2^3, -1) ✗ (2,8,1)
(0.5, 0.75) <== † \left(\frac{1}{2},\frac{3}{4}\right) ✗ \left(\frac{1}{2},\frac{4}{3}\right)
3\mathbf{i}-2\mathbf{j} <== † \langle 3,-2\rangle ✗ † 3\mathbf{i}+2\mathbf{j} ;; (3,4),(1,2) <== † (1,2),(3,4)
\begin{pmatrix}\frac12&0\\0&1\end{pmatrix} <== † \frac12\begin{pmatrix}1&0\\0&2\end{pmatrix}
\begin{pmatrix}\frac12&0\\0&1\end{pmatrix} <== ✗ 2\begin{pmatrix}1&0\\0&2\end{pmatrix} ;; 7-4i <== † -4i+7
3\mathbf{i} - 2\mathbf{j} <== † 3\mathbf{i}-2\mathbf{j} ;; 2 <== ✗ \begin{vmatrix}1&2\\3&4\end{vmatrix}
\begin{pmatrix}1&0\\0&1\end{pmatrix} <== † \left[\begin{array}{cc}1&0\\0&1\end{array}\right]
\begin{pmatrix}1&0\\0&1\end{pmatrix} <== ✗ \left[\begin{array}{cc}1&0\\0&0\end{array}\right]
# plus-minus and sets
-2, 2 <== † \pm 2 ✗ \pm 3 ;; \pm 7 <== † 7,-7 ;; \{2,8\} <== † x\in\{2,8\} ;; 1+\sqrt5 <== ✗ 1\pm\sqrt5
\{5,-5\} <== † x=\pm 5 ✗ x=5 ;; (1,1),(-1,-1) <== \pm(1,1) ✗ \pm(1,2) ;; (1,2,3), (-1,-2,-3) <== \pm (1, 2, 3)
1, 3 <== † \{1,3\} ✗ \{1,-3\} ;; x=3 \text{ or } x=-7 <== † \{-7,3\} ;; (1,1) <== ✗ \pm(1,1) ¦ (\pm 1,\pm 1)
\{4,5\} <== † \{5,4\} ✗ \{4,5,6\} ;; \emptyset <== \varnothing ✗ \{0\} ;; \{\frac12,2\} <== ✗ \{\frac12,-2\}
1+\sqrt5, 1-\sqrt5 <== † x=1\pm\sqrt5 ;; \{-1,0,1\} <== † \{0,\pm 1\} ✗ \{0,1\} ;; \pm(1,1) <== (1,1), (-1,-1)
-7, 3 <== † x = 3 \text{ or } x = -7 ✗ x = 3 \text{ or } x = 7 ;; (\sqrt2,0),(-\sqrt2,0) <== \pm(\sqrt{2}, 0)
\frac{-1+\sqrt{13}}{2}, \frac{-1-\sqrt{13}}{2} <== \frac{-1\pm\sqrt{13}}{2} ;; (-2,3), (2,-3) <== \pm (2, -3)
i, -i <== † x=\pm i ;; \{4,9\} <== † x_1=4, x_2=9 ✗ x_1=4, x_2=8 ;; (1,1),(-1,-1),(1,-1),(-1,1) <== ✗ \pm(1,1)
0,\sqrt2,-\sqrt2 <== † 0, \pm\sqrt2 ✗ 0, \sqrt2 ;; \pm\frac{1}{\sqrt3} <== † \pm\frac{\sqrt3}{3} ✗ \pm\sqrt3
-1, 6 <== † -1 \text{ and } 6 ✗ -1 \text{ and } -6 ;; \frac{-1\pm\sqrt{13}}{2} <== ✗ \frac{1\pm\sqrt{13}}{2}
3 <== † \{3\} ;; \{2,0.5\} <== † \{\frac12,2\} ;; 1\pm\sqrt5 <== ✗ -1\pm\sqrt5 ;; (1,-1),(-1,1) <== ✗ \pm(1,1)
\pm 2 <== ✗ 2 ;; \pm i <== ✗ i ;; 5 <== ✗ 2 \pm 3
# identities
1 <== † \sin^2 x+\cos^2 x ✗ \sin^2 x-\cos^2 x ;; \tan x <== † \frac{\sin x}{\cos x} ✗ \frac{\cos x}{\sin x}
3\ln 2 <== † \ln 8 ;; \frac{\pi}{4} <== † \arctan 1 ;; \cos 2x <== † 1-2\sin^2 x ;; \frac32 <== † \log_4 8
3 <== † \log_2 8 ¦ † \log_{10} 1000 ✗ \log_8 2 ¦ \log_{10} 100 ;; \sin 2x <== † 2\sin x\cos x ✗ -2\sin x\cos x
9 <== † e^{2\ln 3} ✗ e^{3\ln 2} ;; \cos 2\theta <== † \cos^2\theta-\sin^2\theta ✗ \cos^2\theta+\sin^2\theta
\sec^2 a <== † 1+\tan^2 a ✗ 1-\tan^2 a ;; \ln 2+\ln 3 <== † \ln 6 ✗ \ln 5 ;; \ln\frac12 <== † -\ln 2 ✗ \ln 2
\ln 3-\ln 2 <== † \ln\frac{3}{2} ✗ \ln\frac{2}{3} ;; \sinh x <== † \frac{e^x-e^{-x}}{2} ✗ \frac{e^x+e^{-x}}{2}
\log_2 5 <== † \frac{\ln 5}{\ln 2} ✗ \frac{\ln 2}{\ln 5} ;; \frac{\sqrt6-\sqrt2}{4} <== ✗ \sin 75^\circ
\frac12 <== † \cos\frac{\pi}{3} ✗ \sin\frac{\pi}{3} ;; \sin a\cos b+\cos a\sin b <== † \sin(a+b) ✗ \sin(a-b)
\frac{\sqrt6+\sqrt2}{4} <== \sin 75^\circ ;; \sin^2 x <== † \frac{1-\cos 2x}{2} ✗ \frac{1+\cos 2x}{2}
A\sin(\omega t) <== † A\cos\left(\omega t-\frac{\pi}{2}\right) ✗ A\cos\left(\omega t+\frac{\pi}{2}\right)
2\ln 2 <== ✗ \ln 8
# words and polynomials
\text{Yes} <== † yes ✗ no ;; 8p^3-12p^2q+6pq^2-q^3 <== † (2p-q)^3 ;; \frac{1}{2} m v^2 <== \frac{1}{2} v^2 m
B <== † (B) ✗ (C) ;; a^2+2ab+b^2 <== † (a+b)^2 ✗ (a-b)^2 ;; 3x+6y-z <== † 3(x+2y)-z ✗ 3(x+2y)+z ;; 5 <== † 5 h
C <== † \textbf{(C)} ✗ \textbf{(D)} ;; V = \pi r^2 h <== V = h\pi r^2 ;; 8p^3-12p^2q+6pq^2+q^3 <== ✗ (2p-q)^3
\text{(E)} <== E. ;; odd <== † \text{odd} ✗ \text{even} ;; 2x+6 <== † 2(x+3) ;; a m <== m a ✗ † a
\text{No solution} <== † \text{no solution} ✗ \text{one solution} ;; \frac{n^2+n}{2} <== † n(n+1)/2 ✗ n(n-1)/2
Monday <== † \mathrm{Monday} ✗ \mathrm{Sunday} ;; 2 x m <== 2 m x ;; \pi r^2 + 2\pi r h <== 2\pi r h + \pi r^2
\text{true} <== † \textbf{True} ✗ \textbf{False} ;; y = x^2-6x+5 <== † y = (x-3)^2 - 4 ✗ y = (x+3)^2 - 4
\text{Isosceles triangle} <== † \text{isosceles triangle} ✗ \text{equilateral triangle} ;; x^2 <== ✗ x^2 + a b
x^2-1 <== † (x-1)(x+1) ✗ (x-1)(x+2) ;; (x-2)(x^2+2x+4) <== † x^3-8 ✗ x^3+8 ;; 2 + x m <== ✗ † 2 + x
4-y <== † -(y-4) ;; t^2 g <== g t^2 ;; 2 + m <== m + 2 ;; 2x+3 <== ✗ 2(x+3) ;; y-4 <== ✗ -(y-4)
x(x-1)(x-2) <== † x^3-3x^2+2x ✗ x^3-3x^2+3x ;; \pi r^2 h <== \pi h r^2 ✗ † \pi r^2 ¦ † \pi r^2 m ¦ 4\pi r^2 h
x <== ✗ † x g
# named quantities
\det B = -3 <== † -3 ;; \frac12 <== † \text{Slope} = \frac{1}{2} ;; f(2) = 4 <== ✗ f(2) = 3 \quad f(2) = 4
\det(A) = 0.5 <== \det A = \frac12 ;; \deg P = 6 <== † 6 ✗ † \deg Q = 6 ;; 12 <== † \text{Number of ways} = 12
f(4)=16.0 <== † f(4) = 16 ;; g(0, 1) = 2 <== † g(0,1)=2 ;; |A| = 7 <== ✗ |B| = 7 ;; g(0,1)=2 <== ✗ † g(1,0)=2
7 <== † |A| = 7 ;; S = 24 <== \text{Area} = 24 ✗ \text{Area} = 25 ;; \det A = 4 <== ✗ † \det A = 3) \det A = 4
P(A \mid B) = \frac{2}{5} <== † \frac{2}{5} ;; \angle PQR = 70^\circ <== † 70^\circ ✗ † \angle QPR = 70^\circ
2 <== † \operatorname{rank} A = 2 ¦ † \tan\theta = 2 ;; f(2)=9 <== † 9 = f(2) ✗ † f(9)=2 ¦ † f(3)=9 ¦ † g(2)=9
\operatorname{rank}(M) = 2 <== † 2 ;; \tan x = \frac{3}{4} <== † \frac34 ;; 9 <== † \operatorname{Var}(X) = 9
\operatorname{tr} A = 4 <== † 4 ;; 18 <== † \text{Total} = \$18 ;; 24 <== † \text{The answer} = 24
\dim(V)=3 <== † \dim V = 3 ;; 3 <== † \lVert v \rVert = 3 ;; a_{10} = 9 <== ✗ a_{9} = 10
\operatorname{lcm}(1,11) = 11 <== 11 ;; 24 <== ✗ † \text{Wrong answer} = 24 ¦ \text{Area} = 24 \text{ or } 25
\|v\| = \sqrt{5} <== \sqrt5 ;; f(2) = 9 <== f(2) = 4+5 = 9 ;; \det A = -3 <== ✗ \det A = 3
\angle ABC = 70^\circ <== \angle B = 70^\circ ¦ † \angle CBA = 70^\circ ✗ \angle C = 70^\circ
\lVert v \rVert = 3 <== † 3 ✗ † \lVert w \rVert = 3 ;; P(A \mid B) = \frac25 <== ✗ P(B \mid A) = \frac25
E[X] = 2 <== \mathbb{E}[X] = 2 ✗ \mathbb{E}[Y] = 2 ;; \det A = 5 <== ✗ † \det B = 5 ¦ † \text{not } \det A = 5
\text{Area} = 24 <== † 24 ✗ \text{Perimeter} = 24 ;; \operatorname{rank} A = 4 <== ✗ † \operatorname{tr} A = 4
24\text{ cm}^2 <== \text{Area} = 24\text{ cm}^2 ;; \tan x = \frac34 <== ✗ \cos x = \frac34 ¦ \tan x = \frac43
24 <== ✗ † \text{Not the area} = 24 ¦ \text{Area} = 24 = 25 ¦ \text{Area} = 24, 25 ;; P(A)=0.3 <== ✗ P(B)=0.3
f(1)=4 <== ✗ f(-1)=4
# congruences
x\equiv 2\pmod 7 <== x \equiv 2 \mod 7 ;; x \equiv 8 \pmod{17} <== † 8 ;; x = 5k - 2 <== x \equiv 3 \pmod 5
x\equiv 2\pmod 7 <== ✗ x \equiv 2 \pmod 8 ¦ x \equiv 3 \pmod{7} ¦ † x \equiv -2 \pmod 7 ¦ † y \equiv 2 \pmod 7
n \equiv 4 \bmod 9 <== n\equiv 4 \pmod{9} ;; x \equiv 3 \pmod 5 <== † x = 5k+3, k \in \mathbb{Z} ¦ x = 5k + 3
5 \pmod{13} <== 5 ✗ 6 ;; x \equiv 2 \pmod{10} <== ✗ \pm 2
x \equiv 6 \pmod{11} <== x \equiv 6\ (\text{mod } 11) ;; x\equiv 2^{-1} \pmod p <== † x \equiv 2^{-1} \pmod{p}
x\equiv 1\pmod{8} <== x ≡ 1 (mod 8) ;; 8 \pmod{11} <== ✗ 7 \pmod{11} \equiv 8 \pmod{11} ¦ 7 \equiv 8 \pmod{11}
a \equiv 3 \pmod 7 <== † a \equiv 10 \pmod 7 ;; x \equiv 3 \pmod{10} <== ✗ x = x ¦ † x \not\equiv 3 \pmod{10}
k \equiv 3 \pmod 4 <== k \equiv -1 \pmod{4} ;; n=6k\pm1 <== ✗ n \equiv 0, \pm 1 \pmod 6
x\equiv 12 \pmod{19} <== 12 \pmod{19} ;; x \equiv 4 \pmod{5} <== ✗ x \equiv 0 \pmod{1} ¦ † x \equiv 4 \pmod{2}
3 \pmod{5} <== 3 \bmod 5 ;; x \equiv 3 \pmod 5 <== ✗ † x = 5k+2, k \in \mathbb{Z} ¦ x = 3k+5, k \in \mathbb{Z}
x \equiv 1, 4 \pmod 5 <== x \equiv 4, 1 \pmod{5} ✗ x \equiv 1 \pmod 5 ¦ x \equiv 1, 4, 2 \pmod 5
x \equiv 2, 7 \pmod{9} <== x\equiv \pm 2 \pmod 9 ;; n \equiv \pm 1 \pmod 6 <== n = 6k \pm 1 ✗ n = 6n \pm 1
x \equiv 1, 5 \pmod{6} <== x \equiv 1 \pmod 6 \text{ or } x \equiv 5 \pmod 6 ;; x \equiv 8 \pmod{13} <== ✗ 13
x \equiv 3 \pmod{10} <== † x \equiv 3 \text{ (mod 10)} ;; n \equiv 1 \pmod{4} <== n = 1 + 4m, m \in \mathbb{Z}
x \equiv 3 \pmod{10} <== ✗ x \equiv 3 \pmod{10} \text{ or } x \equiv 4 \pmod{10} ;; 3 \pmod 5 <== ✗ 5 \pmod 3
y \equiv 0 \pmod{2} <== † y \equiv 0 \mod{2} ;; n=6k\pm1 <== n \equiv \pm 1 \pmod 6 ¦ n \equiv 1, 5 \pmod 6
n=6k\pm1 <== ✗ n \equiv 1 \pmod 6 ¦ n \equiv \pm 1 \pmod 5 ¦ m \equiv \pm 1 \pmod 6 ¦ n \equiv \pm 2 \pmod 6
# arrows and sequences
f(x)=x^2+1 <== x \mapsto x^2+1 ;; f(x,y)=x+y <== (x,y) \mapsto x+y ;; f(y,x) = x-y <== ✗ (x,y) \mapsto x-y
g(x) = 3x-4 <== t \mapsto 3t-4 ;; x \mapsto x(x-1) <== x^2-x ;; a_n = n + k <== ✗ a_k = k + n
x \mapsto 2^x <== f(x)=2^x ;; a_n = n^2 <== a_{m} = m^2 ✗ a_m = 2^m ;; s_{n}=2\cdot 3^n <== s_j = 2\cdot 3^{j}
f(x)=\sqrt{x} <== f\colon x \mapsto \sqrt{x} ;; u_n = \frac{1}{n+1} <== u_k=\frac{1}{k+1}
b_n = 3n+1 <== b_k = 3k+1 ✗ b_k = 3k-1 ¦ c_n = 3n+1 ;; f(x)=5x <== f: \mathbb{R} \to \mathbb{R}, x \mapsto 5x
a_n = n^2+n <== a_i = i(i+1) ;; f(x)=x^2 <== ✗ x \mapsto 2x ¦ t \mapsto x^2 ¦ x \mapsto y^2 ¦ g: x \mapsto x^2
x_n = 5^n <== † 5^n
b_n=3n+1 <== ✗ b_k = 3n+1 ;; v_x = 3 <== ✗ v_y = 3 ;; a_n = k <== ✗ a_k = n ;; x^3 <== ✗ t \mapsto t^3
# vectors
\begin{pmatrix}4\\-1\end{pmatrix} <== (4,-1) ✗ (-1,4) ¦ (4,1) ¦ \{4,-1\}
\begin{bmatrix}0\\2\\9\end{bmatrix} <== \langle 0, 2, 9\rangle ✗ \langle 0,2\rangle ¦ (0,2,9,0)
(0.5, 3) <== \begin{pmatrix}\frac12\\3\end{pmatrix} ;; (1,2,3,4) <== ✗ \begin{pmatrix}1&2\\3&4\end{pmatrix}
(7,8) <== \begin{bmatrix} 7 & 8 \end{bmatrix} ;; \begin{bmatrix}1\\2\end{bmatrix} <== [1, 2]^T ✗ [2, 1]^T
\begin{pmatrix}1&0&0\end{pmatrix} <== (1,0,0) ;; (2,-3) <== \left[\begin{array}{c}2\\-3\end{array}\right]
\langle 5,6 \rangle <== \begin{pmatrix}5\\6\end{pmatrix} ✗ \begin{pmatrix}6\\5\end{pmatrix}
\begin{pmatrix}3\\-2\end{pmatrix} <== \mathbf{u} = (3,-2) ;; (1,2,3) <== \left<1,2,3\right> ✗ \left<1,2\right>
\begin{pmatrix}1\\4\end{pmatrix} <== (1,4)^T ¦ † \begin{pmatrix}1&4\end{pmatrix}^{T}
\begin{pmatrix}1\\4\end{pmatrix} <== ✗ \begin{pmatrix}1&4\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} <== \begin{pmatrix}1\\[6pt]2\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} <== ✗ \begin{pmatrix}1\\[6pt]3\end{pmatrix}
\begin{pmatrix}1&2\\3&5\end{pmatrix} <== \begin{bmatrix}1&2\\[2mm]3&5\end{bmatrix}
\begin{pmatrix}1&2\\3&5\end{pmatrix} <== ✗ \begin{bmatrix}1&2\\[2mm]5&3\end{bmatrix}
\begin{pmatrix}\frac12\\x\end{pmatrix} <== \begin{pmatrix}\frac{1}{2} \\[0.5em] x \end{pmatrix}
\begin{pmatrix}2\\7\end{pmatrix} <== \left(\begin{smallmatrix}2\\7\end{smallmatrix}\right)
(1,2) <== \vec{v} = \begin{pmatrix} 1 \\ \sqrt{4} \end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} <== ✗ (1,2,3,4) ¦ ((1,2),(3,4))
(1,4) <== ✗ \begin{vmatrix}1\\4\end{vmatrix}
# choices
B <== (B) 12 ¦ B. 12 ;; D <== \text{Choice D}
B <== ✗ (C) 12 ¦ (B) or (C) ¦ \text{B or C} ¦ \text{(B) 5 or (C) 6} ¦ \text{(B), not (C)} ¦ \text{not B}
B <== ✗ \textbf{(B)}\ 5\ \textbf{(C)}\ 6 ¦ (C) (B) ¦ (B) C ¦ \text{B?}\ \text{C?} ¦ \text{all of A, B, C}
B <== ✗ b) c) d) ¦ (B) 5 / (D) 7 ;; \text{(A)} <== \text{(A) 7 cm} ;; A <== ✗ \text{(A) (mostly; else D)}
C <== \textbf{(C)}\ \frac12 ¦ \text{Answer: C} ;; \textbf{(E)}\ 30 <== E ✗ \textbf{(E)}\ 31 ¦ D ;; BD <== D, B
\textbf{(B) }\frac{3}{4} <== \text{(B)} ;; A, D <== \text{A and D} ✗ \text{A or D} ;; \text{A and D} <== D, A
(C) <== C) 18 ;; \textbf{(A)}\ \frac12 <== † \textbf{(A) } 0.5 ;; A, C, D <== ACD ¦ DCA ✗ ABD ¦ \text{not ACD}
(B) <== \text{option B} ✗ \text{Option C} ;; AC <== \text{A and C} ¦ (A), (C) ✗ A, A, C ;; B, D <== \text{BD}
A,C <== \text{(A) and (C)} ;; \text{D} <== \textbf{(D)}\ 2\sqrt{3} ;; E <== \textbf{(E)}~\text{none of these}
A, B, E <== \text{A, B and E} ;; A, C <== ✗ \text{A, B, C, D} ;; \text{A and C} <== ✗ A
ACD <== A, C, D ✗ A, C ¦ A, B, C, D ¦ A, C or D ;; A, B, C, D <== ✗ \text{A and B and C and D and E}
A <== ✗ \text{A and C} ¦ \text{Option A or Option B} ¦ \text{(A) if not (B)} ¦ ABCD ¦ \text{(A) or maybe B}
# words
parabola <== \text{a parabola} ✗ \text{a hyperbola} ;; \text{12:00 PM} <== \text{noon} ✗ \text{midnight}
\text{circle} <== \text{The circle} ✗ \text{not a circle} ¦ \text{circle or ellipse} ¦ \text{Is it a circle?}
No <== \text{no.} ✗ \text{yes.} ;; \text{July 4} <== \text{July 4th} ;; Yes <== ✗ \text{yes and no}
\text{Rectangle} <== \text{rectangle.} ;; \text{7:05 A.M.} <== 7:05 am ;; \text{Dec. 22} <== \text{Dec. 22nd}
\text{infinitely many} <== \text{Infinitely many.} ✗ \text{finitely many} ¦ \text{many}
\text{Infinitely many} <== infinitely many ;; \text{Friday, May 3} <== \text{Friday, May 3rd}
\text{right angled triangle} <== \text{right-angled triangle} ✗ \text{left-angled triangle}
\text{nonzero} <== \text{non-zero} ✗ \text{zero} ;; \text{Wednesday} <== ✗ \text{Tuesday, Wednesday}
\text{isosceles triangle} <== \textbf{an isosceles triangle} ;; true <== ✗ \text{false} ¦ \text{true or false}
3:30\text{ p.m.} <== \text{3:30 PM} ✗ \text{3:30 AM} ;; \text{a scalene triangle or none} <== ✗ \text{scalene}
8\!:\!00\text{ PM} <== \text{8 PM} ;; wednesday <== \textit{Wednesday}. ;; \text{3:30 PM} <== ✗ \text{3:03 PM}
\text{2:20 PM} <== 14{:}20 ;; \text{2:20 AM} <== ✗ 14:20 ;; \text{an} <== ✗ \text{the}
\text{no} <== † \text{NO}
\text{does not exist} <== † \text{Does Not Exist} ✗ \text{exists} ;; \text{negative} <== ✗ \text{non-negative}
\text{July 4} <== ✗ \text{July 5th} ¦ \text{June 4th} ¦ \text{July 4th or 5th} ¦ \text{4th} ¦ \text{July}
\text{March 1st} <== \text{March 1} ;; \text{July 4, 1776} <== \text{July 4th, 1776} ✗ \text{July 4th, 1777}
# ordinals in words
3rd <== \text{third} ✗ \text{a third} ¦ \text{one third} ;; 7\text{th} <== \text{Seventh} ✗ \text{seventeenth}
\text{fourth} <== 4^{\text{th}} ✗ 14^{\text{th}} ;; \text{First} <== 1st ;; \text{45th} <== \text{forty-fifth}
9th <== \text{the ninth} ;; 4th <== ✗ \text{third} ;; 10th <== ✗ \text{tenths}
20^{\text{th}} <== \text{twentieth} ✗ \text{twelfth} ;; 2nd <== ✗ \text{second to last} ¦ \text{first, second}
\text{twenty-first} <== 21\text{st} ✗ 20\text{th} ;; 33^{rd} <== \text{thirty-third} ✗ \text{thirtieth}
22nd <== \text{twenty second} ;; 15th <== \text{fifteenth}. ;; 11^{\text{th}} <== eleventh
8^{\text{th}} <== \text{eighth} ;; 20th <== ✗ \text{twenty second} ;; 1st <== ✗ \text{first or second}
100th <== \text{hundredth} ;; \text{tenth} <== 10 ;; \frac13 <== ✗ \text{third} ;; 16th <== ✗ \text{sixtieth}
# numbers with words
3,000,000 <== 3\text{ million} ✗ 3\text{ thousand} ;; 1250000000 <== 1.25\text{ billion} ✗ 12.5\text{ billion}
5\text{ million} <== 5000000 ✗ † 5 ;; -2000 <== -2\text{ thousand} ✗ 2\text{ thousand} ;; 12 <== \text{twelve}
40{,}000 <== 40 thousand ✗ 40 million ;; \$2{,}500{,}000 <== \$2.5\text{ million} ✗ \$2.5\text{ billion}
7000 <== 7\text{ thousand people} ✗ 7\text{ thousand and one} ;; 21 <== \text{twenty-one} ✗ \text{twenty-two}
6000000 <== \text{6 million} ;; 3\text{ million} <== ✗ 3000001 ;; 7 <== ✗ \text{seven or eight}
4\text{ million} <== 4\times 10^6 ;; 500000 <== \frac12\text{ million} ;; 2000000 <== ✗ 2\text{ millionths}
9 \times 10^{12} <== 9\text{ trillion} ;; 1000000 <== ✗ 1\text{ million or }2\text{ million} ¦ \text{millions}
1.2\text{ million} <== 1{,}200\text{ thousand} ;; 3000000 <== ✗ 3\text{ millimeters} ¦ 3\text{ million or so}
0 <== \text{Zero} ;; 300 <== 3\text{ hundred} ;; \text{seven} <== 7 ;; 16 <== ✗ \text{sixty}
12 <== ✗ \text{twelve or so} ¦ \text{twelve, thirteen} ¦ \text{not twelve} ¦ \text{twelve hundred}
99 <== \text{ninety nine} ;; 100 <== \text{one hundred} ;; 40 <== \textbf{forty} ;; 5 <== ✗ † 5\text{ million}
# minutes and seconds
22.5^\circ <== 22^\circ 30'
45.25^\circ <== 45°15' ✗ 45°25' ;; 36^\circ 15' <== 36^\circ\,15'\,0'' ;; 53.1^\circ <== \theta = 53^\circ 6'
10^\circ 30' <== 10.5^\circ ✗ 10.3^\circ ;; 67^\circ 30' <== 67.5 ;; 12.75^\circ <== 12^{\circ}45^{\prime}
1.51^\circ <== 1^\circ 30' 36'' ✗ 1^\circ 36' 30'' ;; 3.3\text{ hours} <== ✗ 3\text{ hours }30\text{ minutes}
-7.5^\circ <== -7^\circ 30' ✗ 7^\circ 30' ;; 2\text{ hours } 15\text{ minutes} <== † 2\text{ h } 15\text{ min}
\frac{\pi}{8} <== 22°30\u2032 ;; 22.3^\circ <== ✗ 22^\circ 30' ;; -6.5^\circ <== ✗ -7^\circ 30'
\frac{241}{3}^\circ <== 80^\circ 20' ;; 66\text{ inches} <== 5 feet 6 inches ;; 36.75^\circ <== ✗ 36^\circ 75'
5^{\circ}\, 30^{\prime} <== 5^\circ30' ;; 22^\circ 30' <== ✗ 30' ¦ 22^\circ ¦ † 22^\circ 30'' ¦ † 30^\circ 22'
3.5\text{ hours} <== 3\text{ hours }30\text{ minutes} ✗ 30\text{ minutes }3\text{ hours}
5.5\text{ ft} <== 5\text{ ft }6\text{ in} ✗ 5\text{ ft }6\text{ kg} ;; 12.45^\circ <== ✗ 12^{\circ}45^{\prime}
80\text{ minutes} <== 1\text{ hour and }20\text{ minutes} ;; 5.6\text{ ft} <== ✗ 5\text{ ft }6\text{ in}
1.2\text{ kg} <== 1\text{ kg }200\text{ g} ;; 4.5\text{ hours} <== ✗ 3\text{ hours }90\text{ minutes}
3\text{ hours} <== ✗ † 3\text{ hours }30\text{ minutes} ¦ † 3\text{ hours or }30\text{ minutes}
# named solutions
(1,5), (2,3) <== (x,y) = (1,5) \text{ or } (x,y)=(2,3) ¦ x=1, y=5 \text{ or } x=2, y=3
(1,5), (2,3) <== ✗ (x,y) = (5,1) \text{ or } (x,y)=(3,2) ¦ (x,y)=(1,3) \text{ or } (x,y)=(2,5)
(1,5), (2,3) <== ✗ x=1, y=5 \text{ or } x=3, y=2 ¦ y=1, x=5 \text{ or } y=2, x=3
(1,5), (2,3) <== ✗ (x,y)=(1,5) \text{ or } (x,y)=(1,5) ¦ x=1, y=5 \text{ or } x=2
(1,5),(2,3) <== (x,y)=(2,3), (x,y)=(1,5) ✗ (x,y)=(1,5) ;; (x,y)=(1,-5), (-1,5) <== † (1,-5) \text{ or } (-1,5)
(x,y)=(1,5) \text{ or } (2,3) <== † (1,5),(2,3) ;; (0.5,1), (2,4) <== (x,y)=(\frac12,1); (x,y)=(2,4)
(2,3), (1,5) <== † (x,y) \in \{(1,5),(2,3)\} ✗ (x,y) \in \{(1,5),(2,3),(4,4)\}
(0,1) \text{ and } (1,0) <== † (a,b)=(0,1),(1,0) ;; (x,y)=(1,5), (x,y)=(2,3) <== y=5, x=1 \text{ or } y=3, x=2
\{(1,5),(2,3)\} <== (x,y) = (2,3) \text{ and } (x,y) = (1,5)
(x,y)=(1,5), (x,y)=(2,3) <== ✗ (y,x)=(1,5) \text{ or } (y,x)=(2,3) ¦ (a,b)=(1,5), (a,b)=(2,3)
(3,2,1), (1,2,3) <== (p,q,r)=(1,2,3) \text{ or } (p,q,r)=(3,2,1)
(1,5) <== ✗ (x,y)=(1,5) \text{ or } (x,y)=(2,3)
# bases
3F_{16} <== \text{3F}_{16} ¦ † 3f_{16} ✗ \text{3E}_{16} ;; A2_{16} <== (\text{A2})_{16} ✗ \text{A2} ¦ 162_{5}
1A_{12} <== 1\text{A}_{12} ✗ 1\text{A}_{16} ;; B7_{16} <== \mathrm{B7}_{16} ✗ \mathrm{7B}_{16}
1011_2 <== (1011)_2 ¦ 1011_{\text{two}} ✗ (1011)_3 ¦ 1011_{\text{three}} ¦ 1011_2 \text{ or } 1101_2
1011_{2} <== † 1011\text{ (base 2)} ¦ \text{1011}_2 ✗ † 1011\text{ (base 3)} ¦ \text{1101}_2
204_{\text{five}} <== 204_{5} ✗ 204 ;; 732_8 <== 732_{\text{eight}} ;; 221_{\text{three}} <== $221_3$
10110_2 <== † 10110_{(2)} ;; 204 <== ✗ 204_{\text{five}}
# approximate references
\approx 3.46 <== † 3.46 ✗ 3.47 ¦ \approx 3.5 ¦ \approx 3.46 \text{ or } 3.47 ;; \approx \frac14 <== 0.25 ✗ 0.3
\approx 3.460 <== † \approx 3.46 ;; \approx 1{,}500 <== 1500 ✗ 15 ;; 10\sqrt5 <== ✗ \approx 22.36
x \approx 12.7 <== † 12.7 ¦ † x = 12.7 ✗ -12.7 ;; \approx 5.5\text{ cm} <== † 5.5\text{ cm} ✗ † 5.5\text{ m}
x\approx 12.70 <== † x \approx 12.7 ;; \approx 9.1 <== † ≈ 9.1 ✗ ≈ 9.2 ;; x\approx 12.7 <== ✗ † y \approx 12.7
\approx 42 <== † 42 ✗ 43 ;; \approx -0.75 <== † -0.75
\approx 2.3 <== \text{approximately } 2.3 ;; \pi <== ✗ \approx 3 ;; \approx 5 <== ✗ \approx 5\quad \approx 7
# other names of functions
\operatorname{arctg} 3 <== \arctan 3 ✗ \arctan 2 ;; \sinh x <== \operatorname{sh} x ✗ \operatorname{ch} x
\operatorname{tg} x <== \tan x ✗ \cot x ;; \operatorname{arctg} 1 <== \frac{\pi}{4} ;; \lg 2 <== ✗ \ln 2
\csc x <== \operatorname{cosec} x ;; \sin x <== ✗ \operatorname{sh} x
\cot x <== \mathrm{ctg}\, x ¦ \operatorname{cotan} x ✗ \mathrm{tg}\, x ;; \log_{10} 2 <== \operatorname{lg} 2
\lg 1000 <== 3 ✗ 2 ;; \frac{\pi}{4} <== \operatorname{arcctg} 1 ;; \frac{\pi}{2} <== ✗ \operatorname{arctg} 1
\sec^2 x <== \tg^2 x + 1 ✗ \tg^2 x - 1 ;; \sec x <== ✗ \operatorname{cosec} x
\arctan 0.5 <== \arctg\frac12 ✗ \tg\frac12 ;; \frac12\cosh x <== \frac{\operatorname{ch} x}{2}
\arctan 2 <== † \tan^{-1} 2 ¦ \operatorname{Arctan} 2 ✗ \operatorname{arcctg} 2
# towers
2023^{2022^{2021}} <== † {2023}^{2022^{2021}} ✗ ∞ {2023}^{2021^{2022}} ;; 10^{100^{10}} <== ✗ ∞ 10^{10^{100}}
10^{10^{10}} <== † {10}^{{10}^{10}} ✗ ∞ {10}^{{10}^{11}} ;; 2^{100^{100}}-1 <== † 2^{(100^{100})}-1
10^{10^{10}} + 7 <== † 10^{{10}^{{10}}}+7 ;; 5^{5^{5^{5}}} <== † \left({5}\right)^{5^{5^5}} ✗ ∞ -{5}^{5^{5^5}}
7^{7^{7^7}} <== † {7^{7^{7^{7}}}} ✗ ∞ {7^{7^{7^{8}}}} ;; 6^{6^{6^{5}}} <== ✗ ∞ 6^{6^{6^{6}}}
3\cdot 2^{10^{10}} <== † 3 \times 2^{10^{10}} ;; 2^{3^{4^5}} <== † {2}^{{3}^{4^{5}}} ✗ ∞ {2}^{{3}^{4^{6}}}
(10^9)!+1 <== † (10^{9})!+{1} ;; 12^{12^{21}} <== ✗ ∞ 12^{12^{12}} ;; 4^{4^{4^4}} <== ✗ 4^{4^{4^{4^4}}}
1-2^{-10^{10}} <== † 1-{2}^{-10^{10}} ;; {9}^{{9}^{{9}^{9}}} <== † $9^{9^{9^{9}}}$ ✗ ∞ 9^{9^{9}}
# remarks
5 <== † 5 \text{ is the answer} ¦ † 5 \text{ (the larger root)} ¦ † x = 5 \text{ is the only solution}
5 <== † 5 \text{ is the correct answer.} ¦ † x = 5 \text{ (which is the only solution)}
5 <== † 5 \text{ is the largest possible value} ;; \frac{1}{2} <== ✗ \frac{1}{2} \text{ except for } x
5 <== ✗ † 5 \text{ is incorrect} ¦ † 5 \text{ (wrong)} ¦ † 5 \textbf{ is not the answer}
5 <== ✗ † 5 \mathrm{\ isn't it} ¦ † 5 \text{ cannot be} ¦ † 5 \text{ is in}\text{correct} ¦ † 5 \text{, never}
5 <== ✗ † 5 \text{ is impossible} ¦ † 5 \text{ is the opposite of it} ¦ † 5 \text{ I guess}
5 <== ✗ † 5 \text{ would be too small} ¦ † 5 \text{ at most} ¦ † 5 \text{ squared} ¦ † 5 \text{ negative}
5 <== ✗ \cancel{5} ¦ † 5 \text{ is a joke} ¦ † 5 \text{ is off by one} ¦ † 5 \text{ isn t it}
5 <== ✗ † 5 \text{ is the answer to something else} ¦ † 5 \text{ (which is what others say)}
5 <== ✗ † 5 \text{ plus one} ¦ 5 \text{ times } x ¦ † 5 \text{ was ruled out} ¦ † 5 \text{ is one too many}
12 <== † 12 \text{ ways in all} ;; C <== \text{(C) no solution} ;; x = 5 <== ✗ † x = 5 \text{ is false}
7 <== † 7 \text{ notes} ;; 3 <== † 3 \text{ times}
5\text{ cm}^2 <== † 5 \text{ cm squared} ;; E <== \textbf{(E)}\ \text{impossible} ;; \text{no} <== † \text{No}
\frac12 <== † \frac{1}{2} \text{ (exactly)} ;; 2\sqrt{3} <== ✗ † 2\sqrt{3} \text{ perhaps}
B <== \text{(B) cannot be determined} ✗ † B \text{ is incorrect} ;; (3,4) <== ✗ † (3,4) \text{ is no solution}
\text{not a number} <== † \text{Not a number} ;; \text{five} <== ✗ \text{five} \text{ is bad}
# sentences
(3,4) <== \text{The vertex is } (3,4) ;; 2x <== \text{Its derivative is: } 2x
(3,4) <== ✗ \text{The vertex is } (4,3) ¦ \text{The vertex is not } (3,4) ¦ \text{The wrong vertex is } (3,4)
(3,4) <== ✗ \text{The vertex might be } (3,4) ;; 9\pi <== \text{The shaded region is } 9\pi
\frac12 <== \text{The slope equals } \frac{1}{2} ;; y=2x+1 <== \text{Therefore the equation is } y=2x+1
5 <== \text{So the radius is } 5 ;; 2, 3 <== \text{The roots are } 2, 3 ;; 2 <== ✗ \text{The roots are } 2, 3
5 <== ✗ \text{The answer to another question is } 5 ¦ \text{Twice the radius is } 5
5 <== ✗ \text{The opposite of the answer is } 5 ¦ \text{The other root is } 5
5 <== ✗ \text{The value is six, the radius is } 5 ¦ \text{The radius is } 5 \text{ or } 6
12 <== \text{The smallest such integer is } 12 ✗ \text{The upper bound is } 12
7 <== \text{The length of the side is } 7 ;; \frac14 <== \text{The probability = } 0.25
# counts
{}_{8}P_{3} <== 336 ✗ 56 ;; 10 <== {}^5C_2 ;; 20 <== 2 \cdot {}_5C_2 ✗ {}^5C_2 ;; {}_nC_2 <== \binom{n}{2}
336 <== {}_8P_3 ✗ {}_8C_3 ¦ P(8,3) ¦ {}_8P_3 \text{ or } {}_8C_3 ¦ {}_3P_8 ¦ {}_{8}P_{3}! ;; 15 <== _{6}C_{2}
\binom{n}{k} <== {}_nC_k ✗ {}_kC_n ;; {}_8P_3 <== \frac{8!}{5!} ¦ {}_{8}P_{3} ✗ 512 ;; 5040 <== ✗ {}_{10}C_{4}
210 <== {}_{10}C_{4}
""")
RIGHT["the same text"] += (
    Form(",".join(SQUARES), ", ".join(SQUARES), True),
    Form(matrix(15, 15).replace(" & ", "&"), matrix(15, 15), True),
    Form(DIGITS, f"${DIGITS}$", True),
    Form(f"- {DIGITS}", f"-{DIGITS}", True),
    Form(f"$3.{DIGITS}$", f"3.{DIGITS}", True),
    Form(f" {POWER} ", POWER, True),
    Form(polynomial(150).replace(" ", ""), polynomial(150), True),
    Form(nested(r"1 + \frac{1}{", "x", 40), nested(r"1+\dfrac{1}{", "x", 40), True),
    Form(nested(r"\sqrt{2+", r"\sqrt{2}", 45), nested(r"\sqrt{2 + ", r"\sqrt{2}", 45), True),
    Form(r"\{" + ", ".join(SQUARES) + r"\}", r"\left\{" + ", ".join(SQUARES) + r"\right\}", True),
)
NEAR["the same text"] += (
    Form(", ".join(SQUARES), ", ".join([*SQUARES[:-1], "90001"]), False),
    Form(",".join(SQUARES), ", ".join(SQUARES[:-1]), False),
    Form(matrix(15, 15), matrix(15, 15).replace("225", "226"), False),
    Form(matrix(15, 15), matrix(15, 14), False),
    Form(DIGITS, DIGITS[:-1] + "2", False),
    Form(DIGITS, f"-{DIGITS}", False),
    Form(f"3.{DIGITS}", f"2.{DIGITS}", False),
    Form(POWER, f"{POWER}0", False),
)

# Wrong answers beside a reference that is too much to compute, or no mathematics to a parser. They are never paid; a
# busy machine may say that they can't be judged.
HEAVY = (
    (r"\binom{10^9}{5\cdot 10^8}", r"\binom{10^9}{4\cdot 10^8}"),
    (r"3\uparrow\uparrow\uparrow 3", r"3\uparrow\uparrow\uparrow 4"),
    (r"\sum_{n=1}^{10^{12}} \frac{1}{n^n}", r"\sum_{n=1}^{10^{12}} \frac{1}{n^2}"),
    (polynomial(150), polynomial(150).replace("77x^{77}", "78x^{77}")),
    (nested(r"1+\frac{1}{", "x", 40), nested(r"1+\frac{1}{", "x", 39)),
    (nested(r"\sqrt{2+", r"\sqrt{2}", 45), "-" + nested(r"\sqrt{2+", r"\sqrt{2}", 45)),
    *(("10^{10^{10}}+7", "10^{10^{10}}+9"), ("2^{100^{100}}-1", "2^{100^{100}}+1"), ("9^{9^9}", "({9^9})^9")),
    (r"2\cdot 2^{10^{10}}", "2 + 2^{10^{10}}"),
    ("2023^{2022^{2021}}", "{2023^{2022}}^{2021}"),
)
