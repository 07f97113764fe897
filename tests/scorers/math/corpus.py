r"""Answers of people and of adversaries, each with its reference and what it deserves.

HONEST and WRONG have a reference and the content of a box; ATTACKS a whole text, the reference, and what it
tries. No attack gets a point.
"""

from __future__ import annotations

from tests.support.text_tables import listed, paired_by_kind, paired_right_and_wrong

HONEST, WRONG = paired_right_and_wrong(r"""
# of people
1,000 <== 1000 ;; \frac13 <== 0.333333 ✗ 0.33 ;; 1010_2 <== 1010_2 ¦ 1010_{2} ;; \frac{4}{3} <== ✗ \frac{3}{4}
1000 <== 1,000 ;; 0.75 <== \dfrac{3}{4} ;; A <== \text{(A)} ✗ B ;; 8_{16} <== 008_{16} ;; -\infty <== ✗ \infty
72 <== $72$ ¦ \$72 ¦ 72. ¦ 72.0 ¦ 72\text{ cm} ;; y <== ✗ x ;; 1.38 \times 10^{-23} <== ✗ 6.63 \times 10^{-34}
$72$ <== 72 ;; 72. <== 72 ;; ABC <== ✗ ACB
5 <== \text{5} ¦ 5 \text{ men and women} ¦ x = 5 ¦ x = 2 + 3 = 5 ¦ 5\text{ cm}^2 ¦ 5\text{ m/s}^{2}
5 <== 5\text{ cm2} ¦ 5 \text{ (mod 7)} ;; x + y = 1 <== 2x + 2y = 2 ;; 5\text{ hours }6\text{ minutes} <== ✗ 5
5 <== ✗ 5.0000001 ¦ 4.9999999 ¦ -5 ¦ \pm 5 ¦ 1/0 ¦ \text{nan} ¦ five ¦ 5\text{ hours }6\text{ minutes}
5 <== ✗ 5\text{a} + 6\text{b} ¦ 5\text{ x 10}^{3} ;; 4\mathbf{i} + 3\mathbf{j} <== ✗ 4\mathbf{i} + 9\mathbf{j}
3 <== 1\u000a+ 2 ;; 3.14 <== 3.14 \text{ (to 2 decimal places)} ;; 10000000000000001 <== ✗ 10000000000000000.0
1,2,3 <== 3,2,1 ;; 6.63 \cdot 10^{-34} <== 6.63 \times 10^{-34} ;; x = 6 <== x = 6 = 6 ✗ 6 = 5 = 6 ¦ x = 5 = 6
0 <== 0 ✗ 0.0000001 ;; (x+1)(x+2) <== x^2 + 3x + 2 ;; \infty <== x = \infty ✗ 1/0 ;; 0.0000002 <== ✗ 0.0000001
Evelyn <== \text{Evelyn} ¦ \text{evelyn} ✗ Evelny ;; 12345678901234567890.6 <== ✗ 12345678901234567890.5
\{1, 2\} <== \{2, 1\} ;; \frac12 <== \frac{2}{4} ;; False <== \text{False} ;; 10^{-21} <== ✗ 10^{-20}
None <== None ;; 1<x<2 <== (1,2) ;; (1,2) <== 1<x<2 ;; 90 <== 90^\circ ;; 10 <== ✗ 10_2 ;; 10000 <== ✗ 1000
\sqrt{2} <== 1.414214 ✗ 1.41 ;; \begin{pmatrix} 1 \\ 2 \end{pmatrix} <== ✗ \begin{pmatrix} 1 & 2 \end{pmatrix}
5x + 6 <== 6 + 5x ¦ y = 5x + 6 ;; x = 10^{-21} <== ✗ x = 10^{-20} ;; \pi <== ✗ 3.14 ¦ \frac{22}{7}
\frac{1}{\sqrt{2}} <== \frac{\sqrt2}{2} ;; 50\% <== 50\% ¦ 50 ¦ \frac12 ¦ 0.5 ¦ x = 0.5 ¦ 50.0\% ¦ 0.5 = 50\%
\left( 3, \frac{\pi}{2} \right) <== (3, \frac{\pi}{2}) ;; x = 1 \text{ or } x = 2 <== x = 1 \text{ or } x = 2
(-\infty,2] <== (-\infty, 2] ;; 5, 6 <== x=5, y=6 ¦ 5 \text{ and } 6 ;; 25 <== 25_{10} ¦ A_{\text{total}} = 25
[1,2]\cup[3,4] <== [1,2] \cup [3,4] ;; 12 <== 12 \text{ 3-digit numbers} ;; \frac{1}{3000000} <== ✗ 0.0000004
50\% <== ✗ 5000 ¦ 0 = 50 ¦ 1 = 2 = 50 ¦ 0.50000001 ¦ 50.000001 ¦ 5000\% ¦ 50 = 0.5 ;; 10_2 <== ✗ 10 ¦ 2 ¦ 10_3
\{\} <== \emptyset ;; 100000 <== ✗ 100001 ;; 5.0 <== ✗ 5.0000001 ;; 0.5 <== ✗ 50 ¦ 50\% ;; [1, 2] <== ✗ (1, 2)
4i + 3 <== 3 + 4i ;; 6 <== 6 = 6 = 6 ¦ 1 + 5 = 2 \cdot 3 = 6 ✗ 6 = 5 = 6 ¦ \sum_{i=1}^{2} i + \sum_{j=1}^{2} j
\begin{pmatrix} 1 \\ 2 \end{pmatrix} <== \begin{pmatrix} 1 \\ 2 \end{pmatrix} ;; \frac{-1}{2} <== -\frac{1}{2}
123456789012345678901 <== 123456789012345678901 ;; 123456789012345678902 <== ✗ 123456789012345678901
No <== \text{No} ;; 33.3\% <== 0.333 ;; 12345 <== ✗ 12346 ;; y = 5 <== ✗ x = 5 ;; x + 3 <== ✗ x + 2
3 \text{ hours } 30 \text{ minutes} <== 3\text{ hours }30\text{ minutes} ;; 50 <== ✗ 50\% ¦ 50 \text{ percent}
(1, 2) <== ✗ (2, 1) ;; x = 5 <== ✗ 2x = 10 ;; Yes <== ✗ \text{No} ;; 1, 2, 3 <== ✗ 1, 2 ;; x \le 3 <== ✗ x < 3
""")["of people"]

_DEEP = "\\frac{1}{" * 2000 + "x" + "}" * 2000
_RCE = "exec(bytes([105,109,112,111,114,116,32,111,115]))"
ATTACKS = [
    ("\\boxed{9^{9^{9}}}", "5", "hangs"),
    ("\\boxed{(10^{9})!}", "5", "hangs"),
    ("\\boxed{\\prod_{k=1}^{10000000} k}", "5", "hangs"),
    ("\\boxed{" + _DEEP + "}", "5", "overflows the stack"),
    ("\\boxed{" + "{" * 4000 + "5" + "}" * 4000 + "}", "5", "overflows the stack"),
    ("\\boxed{" + "(" * 3000 + "5" + ")" * 3000 + "}", "6", "overflows the stack"),
    ("\\boxed{\\begin{pmatrix}" + "1 & " * 2000 + "1\\end{pmatrix}}", "5", "a wide matrix"),
    ("\\boxed{\\begin{pmatrix}2&1\\\\1&2\\end{pmatrix}^{999999999}}", "5", "a power of a matrix"),
    ("\\boxed{" * 700_000, "5", "five million characters"),
    ("5 " * 2_500_000, "5", "five million characters"),
    ("\\boxed{" + "5" * 5_000_000 + "}", "5", "five million digits"),
    ("\\boxed{\\pi+len(str(" + _RCE + "))}", "\\pi", "is executed"),
    ("\\boxed{" + _RCE + "}", "5", "is executed"),
    ("\\boxed{\\input{/etc/passwd}}", "5", "reads a file"),
    ("\\boxed{\\immediate\\write18{true} 5}", "5", "runs a command"),
    ("<think>\\boxed{5}", "5", "a box in an unfinished thought"),
    ("<think>\\boxed{5}</think>I don't know", "5", "a box in the thought alone"),
    ("<think>a</think>\\boxed{5}<think>or", "5", "thinks again"),
    ("\\boxed{5} but rather \\boxed{6", "5", "the last box is cut off"),
    ("\\boxed{" + "0" * 9_990 + "_x}", "5", "zeros and a subscript"),
    ("\\boxed{5 \\neq 6}", "5", "true of all but one"),
    ("\\boxed{\\text{nan}}", "\\text{anything}", "compares with nothing"),
    ("\\boxed{5\x00}", "6", "a null byte"),
    ("\\boxed{\ud800}", "5", "half of a surrogate pair"),
    ("\\boxed{\u0410}", "A", "another alphabet's letter"),
    ("<\uff5cAssistant\uff5c>\\boxed{6}", "5", "a marker of a template"),
    *(
        (text, reference, trick)
        for trick, pairs in paired_by_kind(r"""
# is executed
5 <== \boxed{__import__('os').system('true')} ;; \pi <== \boxed{open('x','w').write('x')#\pi}
# two boxes
5 <== \boxed{5}\boxed{6}
# lists every answer
5 <== \boxed{1,2,3,4,5,6,7,8,9,10} ¦ \boxed{\{1,2,3,4,5\}}
# two answers
5 <== \boxed{x=5 \text{ or } x=6} ¦ \boxed{5 \text{ (or 6)}} ¦ \boxed{5\text{ / 6}} ¦ \boxed{5\textbf{6}}
5 <== \boxed{5\mbox{ {{6}} }} ¦ \boxed{5\mathit{ or 6}} ¦ \boxed{5\text{ or six}} ;; 5 <== \boxed{\pm 5}
5 <== \boxed{5\text{ and a half}} ¦ \boxed{5\text{ / 6}^2} ¦ \boxed{5 \lor 6} ¦ \boxed{$5$ or $6$}
6 <== \boxed{5 \text{ or } 6}
# four answers
5 <== \boxed{5\text{ 6 7 8}}
# never true
6 <== \boxed{6 = 5 = 6} ;; 5 <== \boxed{3 = 5} ¦ \boxed{6 = 7 = 5}
# three answers
7 <== \boxed{$5$, $6$ and $7$}
# everything
5 <== \boxed{\mathbb{R}} ;; (1,2) <== \boxed{(-\infty,\infty)} ;; x = 5 <== \boxed{x \in \mathbb{R}}
# always true
x = 5 <== \boxed{x = x} ;; x^2 = 4 <== \boxed{0 = 0}
# any text
Evelyn <== \boxed{\text{anything}} ;; 5 <== \boxed{\text{the reference}}
# another alphabet's digit
5 <== \boxed{\uff15} ¦ \boxed{\u0665}
# nothing
\emptyset <== \boxed{} ¦ \boxed{\text{}} ;; 5 <== \boxed{ \quad }
""").items()
        for reference, text in pairs
    ),
]

NULL_ANSWERS = listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>It must be 5, since \boxed{5}¦\boxed{}¦\boxed{ }¦#### ¦The answer is
<|im_end|>
""")
REFERENCES = listed(r"""
0¦1¦5¦-1¦0.5¦\frac{1}{2}¦50\%¦\pi¦\sqrt{2}¦x + 1¦x = 5¦(1, 2)¦1, 2, 3¦\{\}¦\emptyset¦None¦False¦No¦null¦nan
A¦10_2¦1 < x < 2¦\begin{pmatrix} 1 \\ 2 \end{pmatrix}
""")
