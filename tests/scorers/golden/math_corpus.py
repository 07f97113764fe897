r"""Answers of people and of adversaries, each with its reference and what it deserves.

A row of HONEST and WRONG is the content of a box and the reference; of ATTACKS a whole text, the reference, and what it
tries. No attack gets a point.
"""

from __future__ import annotations

HONEST = [
    ("1000", "1,000"), ("1,000", "1000"), ("$72$", "72"), ("72", "$72$"), ("\\$72", "72"), ("72.", "72"), ("72", "72."),
    ("72.0", "72"), ("72\\text{ cm}", "72"), ("x = 5", "5"), ("1\n+ 2", "3"), ("\\text{Evelyn}", "Evelyn"),
    ("\\text{evelyn}", "Evelyn"), ("3,2,1", "1,2,3"), ("\\{2, 1\\}", "\\{1, 2\\}"), ("\\frac{2}{4}", "\\frac12"),
    ("\\dfrac{3}{4}", "0.75"), ("0.333333", "\\frac13"), ("1.414214", "\\sqrt{2}"),
    ("\\frac{\\sqrt2}{2}", "\\frac{1}{\\sqrt{2}}"), ("2^{10}", "1024"),
    ("6.63 \\times 10^{-34}", "6.63 \\cdot 10^{-34}"), ("6 + 5x", "5x + 6"), ("y = 5x + 6", "5x + 6"),
    ("x^2 + 3x + 2", "(x+1)(x+2)"), ("(3, \\frac{\\pi}{2})", "\\left( 3, \\frac{\\pi}{2} \\right)"),
    ("(-\\infty, 2]", "(-\\infty,2]"), ("[1,2] \\cup [3,4]", "[1,2]\\cup[3,4]"), ("(1,2)", "1<x<2"),
    ("x=5, y=6", "5, 6"), ("50\\%", "50\\%"), ("50", "50\\%"), ("\\frac12", "50\\%"), ("1010_2", "1010_2"),
    ("1010_{2}", "1010_2"), ("25_{10}", "25"), ("90^\\circ", "90"),
    ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"), ("\\emptyset", "\\{\\}"),
    ("3 + 4i", "4i + 3"), ("-\\frac{1}{2}", "\\frac{-1}{2}"), ("\\text{(A)}", "A"),
    ("x = 1 \\text{ or } x = 2", "x = 1 \\text{ or } x = 2"), ("x = 2 + 3 = 5", "5"),
    ("123456789012345678901", "123456789012345678901"), ("None", "None"), ("0", "0"), ("\\text{False}", "False"),
    ("2x + 2y = 2", "x + y = 1"), ("x = \\infty", "\\infty"), ("\\text{No}", "No"),
]

WRONG = [
    ("12346", "12345"), ("100001", "100000"), ("123456789012345678901", "123456789012345678902"),
    ("12345678901234567890.5", "12345678901234567890.6"), ("10000000000000000.0", "10000000000000001"),
    ("5.0000001", "5"), ("5.0000001", "5.0"), ("4.9999999", "5"), ("0.0000001", "0"), ("0.0000001", "0.0000002"),
    ("10^{-20}", "10^{-21}"), ("6.63 \\times 10^{-34}", "1.38 \\times 10^{-23}"), ("0.0000004", "\\frac{1}{3000000}"),
    ("x = 10^{-20}", "x = 10^{-21}"), ("0.33", "\\frac13"), ("3.14", "\\pi"), ("\\frac{22}{7}", "\\pi"),
    ("1.41", "\\sqrt{2}"), ("50", "0.5"), ("50\\%", "0.5"), ("50\\%", "50"), ("50 \\text{ percent}", "50"),
    ("5000", "50\\%"), ("10_2", "10"), ("10", "10_2"), ("2", "10_2"), ("10_3", "10_2"), ("(1, 2)", "[1, 2]"),
    ("(2, 1)", "(1, 2)"), ("1<x<2", "(1,2)"), ("-5", "5"), ("\\pm 5", "5"), ("\\infty", "-\\infty"), ("1/0", "\\infty"),
    ("1/0", "5"), ("\\text{nan}", "5"), ("x", "y"), ("x = 5", "y = 5"), ("2x = 10", "x = 5"), ("Evelny", "Evelyn"),
    ("ACB", "ABC"), ("\\text{No}", "Yes"), ("B", "A"), ("x + 2", "x + 3"), ("1, 2", "1, 2, 3"), ("x < 3", "x \\le 3"),
    ("\\frac{3}{4}", "\\frac{4}{3}"), ("1000", "10000"),
    ("\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"), ("five", "5"),
]

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
    ("\\boxed{__import__('os').system('true')}", "5", "is executed"),
    ("\\boxed{open('x','w').write('x')#\\pi}", "\\pi", "is executed"),
    ("\\boxed{\\input{/etc/passwd}}", "5", "reads a file"),
    ("\\boxed{\\immediate\\write18{true} 5}", "5", "runs a command"),
    ("<think>\\boxed{5}", "5", "a box in an unfinished thought"),
    ("<think>\\boxed{5}</think>I don't know", "5", "a box in the thought alone"),
    ("<think>a</think>\\boxed{5}<think>or", "5", "thinks again"),
    ("\\boxed{5} but rather \\boxed{6", "5", "the last box is cut off"),
    ("\\boxed{5}\\boxed{6}", "5", "two boxes"),
    ("\\boxed{1,2,3,4,5,6,7,8,9,10}", "5", "lists every answer"),
    ("\\boxed{\\{1,2,3,4,5\\}}", "5", "lists every answer"),
    ("\\boxed{x=5 \\text{ or } x=6}", "5", "two answers"),
    ("\\boxed{5 \\text{ or } 6}", "6", "two answers"),
    ("\\boxed{5 \\text{ (or 6)}}", "5", "two answers"),
    ("\\boxed{5 \\lor 6}", "5", "two answers"),
    ("\\boxed{$5$ or $6$}", "5", "two answers"),
    ("\\boxed{$5$, $6$ and $7$}", "7", "three answers"),
    ("\\boxed{\\pm 5}", "5", "two answers"),
    ("\\boxed{\\mathbb{R}}", "5", "everything"),
    ("\\boxed{(-\\infty,\\infty)}", "(1,2)", "everything"),
    ("\\boxed{x \\in \\mathbb{R}}", "x = 5", "everything"),
    ("\\boxed{x = x}", "x = 5", "always true"),
    ("\\boxed{0 = 0}", "x^2 = 4", "always true"),
    ("\\boxed{3 = 5}", "5", "never true"),
    ("\\boxed{6 = 7 = 5}", "5", "never true"),
    ("\\boxed{5 \\neq 6}", "5", "true of all but one"),
    ("\\boxed{\\text{nan}}", "\\text{anything}", "compares with nothing"),
    ("\\boxed{\\text{anything}}", "Evelyn", "any text"),
    ("\\boxed{\\text{the reference}}", "5", "any text"),
    ("\\boxed{5\x00}", "6", "a null byte"),
    ("\\boxed{\ud800}", "5", "half of a surrogate pair"),
    ("\\boxed{\uff15}", "5", "another alphabet's digit"),
    ("\\boxed{\u0665}", "5", "another alphabet's digit"),
    ("\\boxed{\u0410}", "A", "another alphabet's letter"),
    ("<\uff5cAssistant\uff5c>\\boxed{6}", "5", "a marker of a template"),
    ("\\boxed{}", "\\emptyset", "nothing"),
    ("\\boxed{\\text{}}", "\\emptyset", "nothing"),
    ("\\boxed{ \\quad }", "5", "nothing"),
]

NULL_ANSWERS = ["", "\n", "I don't know", "</think>", "pass", "<think>It must be 5, since \\boxed{5}", "\\boxed{}",
                "\\boxed{ }", "#### ", "The answer is", "<|im_end|>"]
REFERENCES = [
    "0", "1", "5", "-1", "0.5", "\\frac{1}{2}", "50\\%", "\\pi", "\\sqrt{2}", "x + 1", "x = 5", "(1, 2)", "1, 2, 3",
    "\\{\\}", "\\emptyset", "None", "False", "No", "null", "nan", "A", "10_2", "1 < x < 2",
    "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}",
]
