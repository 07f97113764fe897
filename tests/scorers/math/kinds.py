r"""Wrong answers that a comparison as a whole would pay, by kind, and the right ones beside them.

In: nothing. Out: pairs of a reference and the content of a box. math-verify 0.9.0 calls most of the wrong ones equal: it
looks at the last equation alone, drops what it can't read, and computes a first derivative to 0.
"""

from __future__ import annotations

from tests.support.text_tables import paired_right_and_wrong

_JUDGED = paired_right_and_wrong(r"""
# lists of equations
f(1)=2, f(2)=3 <== f(2)=3, f(1)=2 ¦ f(1)=2\text{ and }f(2)=3 ¦ f(1)=2\quad f(2)=3 ¦ f(1)=\frac{4}{2}, f(2)=3
f(1)=2, f(2)=3 <== 2, 3 ;; 2, 3 <== f(1)=2, f(2)=3 ;; x=3+4t <== ✗ 7 ;; A=(2,3) <== ✗ B=(2,3)
f(1)=2, f(2)=3 <== ✗ f(1)=7, f(2)=8 ¦ f(1)=2 ¦ f(2)=3 ¦ f(2)=2, f(1)=3 ;; f(1)=2; f(2)=3 <== ✗ f(1)=2; f(2)=8
x=1, f(0)=3 <== f(0)=3, x=1 ✗ x=1, f(0)=7 ;; x=1,y=2;x=3,y=4 <== x=3, y=4\text{ or }x=1, y=2 ✗ x=1,y=4;x=3,y=2
x=1, y=2; f=3 <== x=1, y=2, f=3 ;; (x,y)=(1,2), f=3 <== x=1, y=2, f=3.0 ✗ (x,y)=(1,2), f=4 ¦ (x,y)=(2,1), f=3
R=1, I=(-1,1) <== I=\left(-1,1\right), R=1 ✗ R=1, I=(-2,1) ;; g(0)=1\quad g(1)=4 <== ✗ g(0)=5\quad g(1)=4
$x=-6$ or $x=6$ <== $x=-6$or$x=6$ ;; R=3, I=(-3,3) <== ✗ R=3, w=(-3,3) ;; x=3+4t, y=6-7t <== ✗ x=4+3t, y=6-7t
2+2=4, 3+3=6 <== ✗ 1=2, 3=4 ;; P(A)=\frac12\text{ and }P(B)=\frac13 <== ✗ P(A)=\frac14\text{ and }P(B)=\frac13
x=-6, x=2 <== ✗ q=-6, x=2 ;; \angle A=30^\circ, \angle B=60^\circ <== ✗ \angle A=60^\circ, \angle B=30^\circ
f(1)=2\text{ or }f(2)=3 <== ✗ f(1)=2\text{ or }f(2)=8 ;; \{a_1=2, a_2=5\} <== ✗ \{a_1=7, a_2=5\}
# identities
x^2+4x+7=(x+2)^2+3 <== (x+2)^2+3 ✗ x^2+4x+7=(x+2)^2+5 ;; \cos 2x=2\cos^2 x-1 <== ✗ \cos 2x=2\cos^2 x+1
2(x+3)=2x+6 <== 2x+6 ¦ 2x+6=2(x+3) ✗ 2(x+3)=2x+5 ¦ 2x+5 ;; \sin^2 x+\cos^2 x=1 <== ✗ \sin^2 x+\cos^2 x=2
3+4=7 <== 7 ✗ 3+4=8 ;; x^2-9=(x-3)(x+3) <== ✗ x^2-9=x^2-9
x^2-1=(x-1)(x+1) <== x^2-1=(x+1)(x-1) ✗ x^2-1=(x-1)(x+2) ¦ x^2-2=(x-1)(x+1) ;; n(n+1)=n^2+n <== ✗ n(n+1)=n^2-n
(a+b)^2=a^2+2ab+b^2 <== ✗ (a+b)^2=a^2+b^2 ;; \tan x=\frac{\sin x}{\cos x} <== ✗ \tan x=\frac{\cos x}{\sin x}
# derivatives
\frac{dy}{dx}=2x <== 2x ¦ y'=2x ✗ \frac{dy}{dx}=3x ¦ \frac{dy}{dt}=2x ;; \dot{x}=3 <== \frac{dx}{dt}=3
\frac{\mathrm{d}y}{\mathrm{d}x}=2x <== \frac{dy}{dx}=2x ;; f'(x)=2x <== ✗ f(x)=2x
\frac{d^2y}{dx^2}=6x <== y''=6x ✗ \frac{d^2y}{dx^2}=5x ¦ \frac{dy}{dx}=6x ¦ \frac{d^2y}{dx^{3}}=6x
\frac{dV}{dt}=-kV <== \frac{dV}{dt}=-Vk ✗ \frac{dV}{dt}=kV ;; y'=2y <== ✗ y=2y ;; x^2 <== ✗ \frac{d}{dx}x^3
12 <== ✗ 12+\frac{dx}{dt} ¦ 12+\frac{d}{dx}(x) ¦ 12 + y' ¦ 12+\frac{\partial u}{\partial x} ¦ 12-\dot{x}
12 <== ✗ 12\cdot(1+\frac{dy}{dx}) ¦ 12+\frac{df(x)}{dx}
# names that math-verify takes for others
I=\frac12MR^2 <== I=\frac{MR^2}{2} ¦ \frac{MR^2}{2} ✗ I=\frac25MR^2 ;; \ln x+C <== C+\ln x ¦ \ln x+c
P=I^2R <== P=RI^2 ✗ P=-R ;; A^T <== A^{\top} ✗ A ;; U=RI <== ✗ U=R\sqrt{-1}+1 ;; x^2+4 <== ✗ X^2+4 ¦ (x^2+4)'
I^2R <== ✗ -R ;; 1 <== ✗ \frac{A}{a} ;; x <== ✗ x^{(1)} ;; B <== ✗ B^{\top} ;; \Delta <== ✗ \delta
0 <== ✗ X-x ;; 2x <== ✗ x+X ;; y <== ✗ y' ;; I=5 <== ✗ U=5 ;; 6M <== ✗ 6m ;; \Pi <== ✗ \pi ;; 3 <== ✗ 3'
# equations that words or spaces join
y=3\text{ when }x=2 <== x=2, y=3 ✗ y=5\text{ when }x=2 ;; a=1\text{ and so }b=2 <== ✗ a=4\text{ and so }b=2
x=1\quad y=2 <== x=1, y=2 ¦ y=2\quad x=1 ✗ x=3\quad y=2 ;; m=4\text{, where }n=1 <== ✗ m=5\text{, where }n=1
x=1\u000ay=2 <== x=1, y=2 ✗ x=3\u000ay=2 ;; x=1 y=2 <== ✗ x=3 y=2 ;; x=1\implies y=2 <== ✗ x=3\implies y=2
x=1\qquad y=2 <== ✗ x=3\qquad y=2
y=3\text{ at }x=2 <== ✗ y=5\text{ at }x=2 ;; x=1\text{ for the first, }y=2 <== ✗ x=3\text{ for the first, }y=2
y=3\text{ if }x=2 <== ✗ y=3\text{ if }x=7 ;; x=1\Rightarrow y=2 <== ✗ x=3\Rightarrow y=2
y=3\text{ when }x=2, y=5\text{ when }x=4 <== ✗ y=3\text{ when }x=4, y=5\text{ when }x=2
# what is about equal
\sin(392.994)\approx-0.291 <== -0.291 ¦ \sin(392.994)=-0.291 ✗ \sin(392.994)\approx5 ;; 100 <== ✗ 12\approx100
\sqrt2 <== \sqrt2\approx1.414 ;; 1.414 <== \sqrt2\approx1.414
x\approx 3.5 <== 3.5 ✗ x\approx 4.5 ;; 12 <== ✗ 12\approx100 ;; \ln 2\approx0.693 <== ✗ \ln 3\approx0.693
3.5 <== x\approx 3.5 ;; P=\frac{2000}{e^{0.0075}}\approx1985.06 <== ✗ P=\frac{2000}{e^{0.0075}}\approx-1985.06
\pi\approx3.14 <== ✗ \pi\approx 5 ;; \sqrt{2} <== ✗ \sqrt{2}\approx2 ;; e\approx 2.718 <== ✗ e\approx 2.178
\approx(-\infty, 2.7) <== ✗ \neq\approx(-\infty, 2.7) ;; \approx 17.1\text{ ft} <== ✗ \approx 17.1\text{ in}
# lists of quantities
5\text{ cm}, 6\text{ cm} <== 5, 6 ¦ 6\text{ cm}, 5\text{ cm} ¦ 0.05\text{ m}, 6\text{ cm}
5\text{ cm}, 6\text{ cm} <== ✗ 5\text{ m}, 6\text{ m} ¦ 5\text{ cm} ;; 6m <== 6\text{ m} ✗ 6h ¦ 6\text{ hours}
6 <== 6m ;; \$500 \text{ at } 6\%, \$700 \text{ at } 9\% <== ✗ \$500 \text{ at } 9\%, \$700 \text{ at } 6\%
5\text{ cm}, 6\text{ m} <== 6\text{ m}, 5\text{ cm} ;; 4\mathrm{N}-\mathrm{m} <== ✗ 4\mathrm{N}+\mathrm{m}
2\text{ hours}, 3\text{ hours} <== 2, 3\text{ hours} ;; 3\text{ kg}; 4\text{ kg} <== ✗ 3\text{ kg}; 4\text{ g}
2\text{ hours}, 3\text{ hours} <== ✗ 2\text{ hours}, 4\text{ hours} ¦ 2\text{ hours}, 3\text{ minutes}
\sqrt2\text{ ft}, \sqrt3\text{ ft} <== ✗ \sqrt2\text{ ft} ;; \text{5 cm and 6 cm} <== ✗ \text{5 cm and 7 cm}
\$4, \$5 <== ✗ \$4, 5\text{ cents} ;; \text{width 5 cm, length 6 cm} <== ✗ \text{width 5 cm, length 7 cm}
5\text{ cm and }6\text{ cm} <== ✗ 5\text{ cm and }7\text{ cm} ;; 5\text{ m}\quad 6\text{ m} <== ✗ 5\text{ m}
7\text{ L} <== ✗ 7m ;; \text{4 hr for John, 14 hr for Sue} <== ✗ \text{4 hr for John, 15 hr for Sue}
4\text{ adults}, 5\text{ children} <== ✗ 5\text{ adults}, 4\text{ children}
# values left open
1024 <== 2^{10} ;; 15 <== 7+8 ;; 9 <== ✗ \max(4,9)
120 <== 5! ✗ \prod_{k=1}^{5} k ;; 4:30\text{ PM} <== ✗ 4:30\text{ AM} ;; 36 <== ✗ \operatorname{lcm}(12,18)
252 <== \binom{10}{5} ;; \sum_{k=1}^{3} c <== 3c ¦ \sum_{k=1}^3 c ;; \frac{n(n+1)}{2} <== ✗ \sum_{k=1}^{n} k
55 <== \sum_{k=1}^{10} k = 55 ✗ \sum_{k=1}^{10} k ;; \frac12 <== \int_0^1 x\,dx=\frac12 ✗ \int_0^1 x\,dx
12 <== ✗ 12\ldots ¦ 12\dots ¦ 12\cdots ¦ 12... ;; -2 <== ✗ \det\begin{pmatrix}1&2\\3&4\end{pmatrix}
1, 2, 3 <== ✗ 1, 2, 3, \ldots ;; 11 <== ✗ 5 6 ;; \{4,5,7\} <== ✗ \{4,5,\{7\}\} ;; 3 <== ✗ \lfloor 3.7\rfloor
x^2+1 <== ✗ x^2+1+\cdots ;; 5:30\text{ PM} <== ✗ 5:30 ;; 6 <== ✗ \gcd(12,18) ;; 2 <== ✗ 17\bmod 5
32 <== ✗ 32\text{ factorial} ;; 1 <== ✗ \lim_{x\to 0}\frac{\sin x}{x} ;; 48480 <== ✗ 55\times1212-15\times1212
# equations to be solved
7 <== x=7 ¦ a+b=7 ¦ AB=7 ¦ f(2)=7 ¦ 7=x ¦ x=3+4=7 ;; x+y=7 <== y=7-x ¦ 2x+2y=14 ✗ 7 ;; x^2+1 <== ✗ 7 = x^2+1
7 <== ✗ x+1=7 ¦ 2x=7 ¦ x^2=7 ¦ x(x+1)=7 ¦ |x-3|=7 ¦ 3=7 ¦ x+1=8 ¦ \sqrt{x}+1=7 ¦ \frac{x}{2}=7 ¦ 7<8 ¦ x\ne 7
y=2x+1 <== 2x+1 ¦ 2x-y+1=0 ;; x^2+4 <== ✗ x=x^2+4 ;; x=5 <== ✗ 2x=10 ;; x<2 <== ✗ 2x+1<5
# relations
a<b <== b>a ✗ a>b ;; a\le b <== ✗ a<b ;; x\ne 3 <== ✗ x\ne 4 ;; a=b=c <== ✗ a=b ;; i^{2}=-1 <== ✗ i^{2}=1
x<3, y>2 <== y>2, x<3 ¦ x<3\text{ and }y>2 ✗ x<3, y>5 ¦ x<3 ;; P(X=3)=0.2 <== 0.2 ✗ P(X=3)=0.3 ¦ P(X=2)=0.2
x+y<3 <== 3>x+y ✗ x+y<4 ¦ x+y>3 ;; \lim_{x\to 0}f(x)=3 <== 3 ✗ \lim_{x\to 0}f(x)=4 ¦ \lim_{x\to 1}f(x)=3
x-y<3 <== y-x>-3 ;; (-\infty,3) <== ✗ [-\infty,3) ;; (-\infty,2)\cup(3,\infty) <== ✗ (-\infty,2)\cup(3,\infty]
0<x<y<5 <== 5>y>x>0 ✗ 0<x<y<6 ;; t=\frac{\ln 2}{0.1}=10\ln 2 <== 10\ln 2=\frac{\ln 2}{0.1}=t
# ratios
3:4:5 <== 6:8:10 ✗ 3:5:4 ¦ 6:8:9 ¦ 3:4 ¦ \frac{3}{20} ;; a:b=3:4 <== 3:4 ✗ a:b=4:3 ;; 1:2:3 <== ✗ 1:2:4
3:4 <== 3\text{ to }4 ¦ 3 to 4 ¦ \frac34 ¦ 1.5:2 ✗ 4:3 ;; \frac34 <== 3:4 ;; 3\text{ to }4 <== ✗ 4\text{ to }3
1:\sqrt{3} <== \sqrt{3}:3 ;; 2:3 <== ✗ 4:9 ;; 1:0 <== ✗ 2:1 ;; 1:2 <== ✗ 0:0
# words that scale
84 <== 7\text{ dozen} ;; 3.5 <== 7\text{ halves} ;; 7 <== 7\text{ eggs} ;; 700 <== 7\text{ hundred}
7\text{ dozen} <== 84 ✗ 7 ;; 7 <== ✗ 7\text{ tenths} ¦ 7\text{ thirds} ¦ 7\text{ hundredths} ¦ 7\text{ gross}
7 <== ✗ 7\text{ dozen} ¦ 7 dozen ¦ 7\text{ hundred} ¦ 7\text{ thousand} ¦ 7\text{ million} ¦ 7\text{ halves}
# roots and logarithms of positive numbers
\sqrt{\frac{a}{b}} <== \frac{\sqrt a}{\sqrt b} ✗ \sqrt{\frac{b}{a}} ;; \sqrt{a+b} <== ✗ \sqrt{a}+\sqrt{b}
\ln(xy) <== \ln x+\ln y ✗ \ln x\cdot\ln y ;; \sqrt{x^2} <== ✗ x ;; \sqrt[3]{ab} <== ✗ \sqrt[3]{a}+\sqrt[3]{b}
\ln\frac{x}{y} <== \ln x-\ln y ✗ \frac{\ln x}{\ln y} ;; \sqrt{ab} <== \sqrt{a}\sqrt{b} ✗ a\sqrt{b}
\log x^2 <== 2\log x ✗ (\log x)^2 ;; \sqrt{x^3} <== x\sqrt{x} ;; |x| <== ✗ x ;; \ln(x+y) <== ✗ \ln x+\ln y
# words, joints and brackets as people write them
19, 46, and 82 <== 19, 46, \text{ and } 82 ;; x=1orx=2 <== x=1, x=2 ;; 6\text{ fortnights} <== ✗ 6\text{ days}
19, 46, \text{ and } 82 <== 82, 46, 19 ;; 60 <== 5\text{ dozen eggs} ;; 12 <== ✗ 12\text{ etc.} ¦ 12\text{...}
(1;2) <== (1,2) ;; $21,16$ or $11$ <== 21,16,11 ;; 1,3,5 <== 1, 3 \text{ or } 5 ;; 5\text{ dozen eggs} <== 60
\{1;2;3\} <== 1,2,3 ;; $125$ apples <== 125 ;; 5\text{ students} <== 5 ;; AB=3, BC=4 <== ✗ 4, 3
-12;-11;-10 <== \{-12,-11,-10\} ;; x=1\text{ (max)}, x=2\text{ (min)} <== ✗ x=2\text{ (max)}, x=1\text{ (min)}
$125$ miles <== 125\text{ miles} ;; A=(1,2), B=(3,4) <== ✗ (3,4), (1,2) ;; A(1,2), B(3,4) <== ✗ A(3,4), B(1,2)
(11,7)or(7,11) <== (7,11), (11,7) ;; (i) 5 (ii) 6 <== ✗ (i) 6 (ii) 5 ;; 6\textbf{ m} <== ✗ 6\textbf{ s}
1\leq|z|\leq \frac{3}{2} <== z \in \left[-\frac{3}{2}, -1\right] \cup \left[1, \frac{3}{2}\right]
\frac{NO}{BO}=\frac{1}{\sqrt6} <== \frac1{\sqrt6} ;; \begin{cases}x+y=1\\x-y=3\end{cases} <== x+y=1, x-y=3
1,2,3,4,\dots <== 1,2,3,4,... ;; f(1)=2, f(2)=3 <== ✗ 3, 2 ¦ \{3,2\} ;; 5\text{ apples} <== ✗ 5\text{ oranges}
(0.5;3] <== (0.5,3] ;; 7 <== ✗ 7\approxeq9
f(x)=\begin{cases}1&x>0\\2&x\le0\end{cases} <== f(x)=\begin{cases}1 & \text{if } x>0\\2 & \text{if } x\le0\end{cases}
f(x)=\begin{cases}1&x>0\\2&x\le0\end{cases} <== ✗ f(x)=\begin{cases}3&x>0\\2&x\le0\end{cases}
f(x)=\begin{cases}1&x>0\\2&x\le0\end{cases} <== ✗ f(x)=\begin{cases}2&x>0\\1&x\le0\end{cases}
12\text{ ways} <== 12\text{ different ways} ;; 9\text{ if }n\text{ is even} <== ✗ 9\text{ if }n\text{ is odd}
\text{Area}=5, \text{Perimeter}=10 <== ✗ 10, 5 ;; 5\text{ miles north} <== ✗ 5\text{ miles south}
f^{-1}(x) <== ✗ \frac{1}{f(x)} ;; 6\text{ atm} <== ✗ 6\text{ Pa} ;; 7/5 <== ✗ \frac75\quad\frac55
10\%\text{ increase} <== ✗ 10\%\text{ decrease} ;; 3\text{ square units} <== ✗ 3\text{ cubic units}
5 <== ✗ 5\text{ dozen eggs} ¦ 5\textbf{ dozen} ¦ 5\text{ twelfths} ¦ 5\text{ crore} ¦ 5\text{ ppm}
# signs, marks and joints that math-verify drops
x\in\{1,2\} <== 1,2 ;; f(x)=1 <== f(x)\equiv 1 ¦ 1 ;; \alpha_i^2 <== \alpha _i^2 ;; P(1234)=5 <== ✗ P(1,234)=5
17 \bmod 5 <== 17\bmod 5 ;; \gamma^2+1 <== 1+\gamma^2 ¦ \gamma \cdot \gamma+1 ✗ \gamma^3+1 ¦ 1 ¦ \gamma_1^2+1
\sum_{k=1}^{n}k^2 <== \sum_{i=1}^{n}i^2 ;; \int_0^1 x dx <== \int_0^1 x\,\mathrm{d}x ¦ \int_0^1 x \mathrm dx
A\cap B <== A \cap B ;; 5.2 <== \approx 5.2 ;; 9 <== ✗ x^2=9 ¦ 2x=9 ;; 5.5 <== ✗ 5 .5 ;; (x+1)^2 <== ✗ (x+1)^3
2:3 <== 2\text{ to }3 ¦ 0.2:0.3 ✗ 2\text{ cm}:3\text{ m} ¦ 3:2 ;; x <== ✗ [x] ¦ \{x\} ¦ \lfloor x\rfloor
2:3:4 <== 0.2:0.3:0.4 ;; 6\text{ m/s} <== 6m/s ;; .710. <== $.710.$ ¦ .71 ;; P(1,234)=5 <== ✗ P(1234)=5
f'(x)=2x <== \frac{df}{dx}=2x ;; 1,2,3 <== 1; 2; \text{ and } 3 ;; f(1)=2, f(2)=3 <== ✗ 2, f(2)=4
6\text{ m}^2 <== 6m^2 ¦ 6 m^2 ;; -1./3 <== -\frac{1}{3} ¦ -1/3 ;; \mathcal{A} <== ✗ \mathbb{A}
12\text{ m}^2 <== 12m² ;; 5 <== ✗ 5\text{ cubed} ¦ 5\text{ thousand} ¦ 5\text{ hundredths}
x\ne 3 <== x \neq 3 ;; ]1,3[ <== (1,3) ;; 1 in <== (1 in) ;; 2:30 <== ✗ 4:60 ;; n!! <== ✗ (n!)!
z^* <== z^{*}
(1,2)+t(3,4) <== (1, 2) + t(3, 4) ;; \nabla\cdot F <== ✗ \nabla\times F ;; 64\pi <== ✗ 64\pi\text{ squared}
\lim_{x\to0^+}f(x) <== \lim_{x\to 0^{+}} f(x) ;; \frac{e^{2 i t}}{(2+2 i)} <== \frac{e^{2i t}}{(2+2i)}
\{x|x=3k,k\in\mathbb{Z}\} <== \{x|x=3k,k\in \mathbb{Z}\} ¦ \{x \mid x = 3k, k \in \mathbb{Z}\} ;; 12 <== ✗ 1 2
\frac{e^{2 i t}}{(2+2 i)}+C e^{-2 t} <== \frac{e^{2i t}}{(2+2i)}+C e^{-2t} ;; A(1,2), B(3,4) <== ✗ (3,4),(1,2)
\hbar \omega(v+1 / 2)-\frac{E_{0}^{2} e^{2}}{2 m \omega^{2}} <== \hbar\omega(v+\frac12)-\frac{E_0^2e^2}{2m\omega^2}
\frac{1}{3} E_{1}+\frac{2}{3} E_{2} <== \frac{1}{3}E_1+\frac{2}{3}E_2 ;; 14 <== ✗ 14\text{?} ¦ 14\text{ or so}
$\quad \frac{1}{\sqrt{3}}$ <== \text{Answer: }\quad \frac{1}{\sqrt{3}} ¦ (\quad \frac{1}{\sqrt{3}})
$\quad \frac{1}{\sqrt{3}}$ <== N = \quad \frac{1}{\sqrt{3}} ;; x<1 \text{ or } x>2 <== ✗ x<1 \text{ and } x>2
$E(8 X-Y+12)=8((1-p) / p)-\lambda+12$ <== 8((1-p) / p)-\lambda+12 ;; 3\text{ units}^2 <== ✗ 3\text{ units}^3
\left|\begin{array}{rrr}1 & 2 & 1 \\ 2 & 3 & 2 \\ -4 & 1 & 2\end{array}\right|=-6 <== -6 ;; 0,245 <== ✗ -0,245
\bigcup_{k=-\infty}^{\infty}(2 k \pi,(2 k+2) \pi) <== \bigcup_{k=-\infty}^{\infty}(2k\pi,(2k+2)\pi)
1234 <== ✗ 1, 234 ;; f(r)=-\frac{m h^{2}(\gamma^{2}+1)}{r^{3}} <== ✗ f(r)=-\frac{m h^{2}(\gamma^{3}+1)}{r^{3}}
# what math-verify takes for a constant, and names and brackets of lists
F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1} <== F_n = \sum_{k=0}^{n-1} F_{n-k-1} F_k ;; f'(x) <== ✗ \frac{d}{dx} g(x)
F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1} <== ✗ F_n = n F_k F_{n-k-1} ¦ F_n = \sum_{k=0}^{n-2} F_k F_{n-k-2}
\frac{d}{dx} f(x) <== f'(x) ;; x=1,y=2 <== [1,2] ✗ [1,2) ;; n=1,2 <== ✗ N=1,2 ;; x=\{1,2,3\} <== ✗ y=\{1,2,3\}
F_n = \sum_{k=0}^{n-1} F_k <== F_n = \sum_{j=0}^{n-1} F_j ✗ F_n = \sum_{j=0}^{n-1} F_k ;; 0<P(A)<1 <== (0,1)
\frac{dy}{dx} <== \frac{d}{dx} y ;; 12345\pi <== 12,345\pi ✗ 12,346\pi ¦ 12, 345\pi ¦ 12,34,5\pi ¦ (12,345\pi)
a_{n+1} = 2\sum_{k=1}^n a_k <== 2a_{n+1} = 4\sum_{k=1}^n a_k ;; f(x) \ge 0 <== [0,\infty) ¦ \{y \mid y \ge 0\}
\frac{dy}{dx} = 2x <== \frac{d}{dx} y = 2x ;; p=5,q=2;p=7,q=2 <== (5,2),(7,2) ✗ (5,2),[7,2)
\frac{d}{dx} y = 2x <== y' = 2x ;; S = \sum_{k=1}^n a_k <== ✗ S = n a_k ;; \frac{d}{dt} x <== ✗ \frac{d}{dt} q
\frac{dP}{dt} = kP <== \frac{d}{dt} P = kP ;; \frac{d}{dx}(y^2) <== ✗ \frac{d}{dx}(z^2) ;; (1,2] <== ✗ x=1,y=2
\frac{d}{dx} x^2 <== 2x ;; 12,345\pi <== 12345\pi ;; \frac{d}{dx} y <== ✗ 0 ;; n=1, 2, 3 <== ✗ m=1, 2, 3
f''(x) <== \frac{d^2}{dx^2} f(x) ;; 1500\sqrt{2} <== 1,500\sqrt{2} ;; f(x) \in (0,1) <== ✗ g(x) \in (0,1)
x=1,2 <== x=1, x=2 ¦ 1,2 ;; 1500 \times 10^3 <== 1,500 \times 10^3 ;; S_n = \sum_{k=1}^n a_k <== ✗ S_n = n a_k
\frac{1234}{5} <== \frac{1,234}{5} ;; \int \frac{x\,\mathrm{d}x}{\sqrt{1+x}} <== \int \frac{x}{\sqrt{1+x}}\,dx
0<f(x)<1 <== (0,1) ¦ f(x) \in (0,1) ✗ [0,1) ¦ 0<x<1 ;; \operatorname{atanh}{\left(x \right)} <== \tanh^{-1} x
\int_0^1 \frac{1}{1+x}\,dx <== \int_0^1 \frac{dx}{1+x} ;; \operatorname{atan}{\left(a \right)} <== ✗ \arcsin a
\operatorname{asin}{\left(a \right)} <== \arcsin a ;; \frac{d}{dx}(y^2) = x <== ✗ \frac{d}{dx}(z^2) = x
S_n = \sum_{k=1}^n a_k^2 <== ✗ S_n = n a_k^2 ;; \int_0^1 \frac{2\,dx}{1+x^2} <== ✗ \int_0^1 \frac{3}{1+x^2} dx
P_n = \prod_{k=1}^n x_k <== ✗ P_n = x_k^n ;; \frac{\partial}{\partial x} f <== ✗ \frac{\partial}{\partial x} g
\frac{d}{dx} y^2 <== ✗ \frac{d}{dx} z^2 ¦ \frac{d}{dx} y^3 ;; \frac{d}{dx} y^2 + x <== ✗ \frac{d}{dx} z^2 + x
""")
RIGHT, WRONG = ({kind: pairs[place] for kind, pairs in _JUDGED.items()} for place in (0, 1))

_FORCE = r"-\frac{2 z}{r^{3}} \mathbf{e}_{r}+\frac{1}{r^{2}} \mathbf{e}_{z}"
_DETERMINANT = r"\left|\begin{array}{rrr}1 & 2 & 1 \\ 2 & 3 & 2 \\ -4 & 1 & 2\end{array}\right|=-6"
_SIGNS = "signs, marks and joints that math-verify drops"
RIGHT[_SIGNS] += (
    (f"${_FORCE}$", f"({_FORCE})"),
    (_DETERMINANT, r"\begin{vmatrix}1&2&1\\2&3&2\\-4&1&2\end{vmatrix}=-6"),
)
WRONG[_SIGNS] += ((_DETERMINANT, _DETERMINANT.replace("-4", "+4")),)
