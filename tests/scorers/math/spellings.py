r"""Honest spellings of an answer, and beside each kind a wrong answer in the same dress.

In: nothing. Out: by kind, pairs of the content of a box and a reference that say the same, and pairs that don't; and
whole texts of the rows that look for something else than a box. What a spelling says is never computed here.
"""

from __future__ import annotations

from tests.support.text_tables import paired_by_kind, paired_right_and_wrong

_JUDGED = paired_right_and_wrong(r"""
# digit groups
11111111100 <== 11,\! 111,\! 111,\! 100 ✗ 11,\! 111,\! 111,\! 101 ¦ 11,\! 111,\! 111 ;; -65536 <== ✗ 65,\! 536
11,111,111,100 <== 11,\! 111,\! 111,\! 100 ;; 11,\! 111,\! 111,\! 100 <== 11111111100 ;; 0.5123 <== ✗ 0.5 123
-4096 <== -4,\! 096 ;; 2450 <== \$2,\! 450 ;; 125 <== ✗ 1,\!25 ;; 1234 <== ✗ 1.234 ;; 100200 <== ✗ (100,\!200)
1000000 <== 1,\!000,\! 000 ¦ 1'000'000 ¦ 1.000.000 ¦ 1_000_000 ✗ 1'000'001 ¦ 1.000.001 ¦ 1_000_001
12345 <== 12\!,\!345 ¦ 12{,}345 ¦ 12{,\!}345 ¦ 12\text{,}345 ¦ 12{\,}345 ✗ 12{,}346 ;; 65536 <== x = 65,\! 536
1000 <== 1{'}000 ¦ 1\_000 ✗ 1.000 ;; 10000 <== 10\hspace{1pt}000 ;; (1, 250, 3) <== ✗ (1,\! 250, 3)
\frac{1000}{3} <== \frac{1,\! 000}{3} ;; 0.123456 <== 0.123\,456 ✗ 0.123\,457 ;; 3.14159265 <== 3.141\,592\,65
(1250, 3) <== (1,\! 250, 3) ;; 1234567.5 <== 1\,234\,567.5 ;; 1250 <== ✗ 1, 250 ;; (100,201) <== ✗ (100,\!200)
56 <== ✗ 5,\! 6
# indices
x^2_1 <== x_1^2 ✗ x_2^2 ;; F\Big|_a^b <== F\Big|^b_a ;; x_\beta <== ✗ x_{\alpha} ;; x^\alpha <== ✗ x_{\alpha}
x_1^2 <== x^2_1 ¦ {x_1}^2 ✗ x^3_1 ¦ x_{12} ;; v_{\max} <== v_\max ;; x^{2}_{1} + x^{2}_{2} <== x_2^2 + x_1^2
x_1^2 + x_2^2 <== x^{2}_{1} + x^2_2 ;; a_{k-1}^{n+1} <== a^{n+1}_{k-1} ;; \sum^n_{k=2} k <== ✗ \sum_{k=1}^n k
\sum^n_{k=1} k <== \sum_{k=1}^n k ;; 1 + x_{\alpha} <== x_\alpha + 1 ;; \int_0^1 x\,dx <== ✗ \int^0_1 x\,dx
x_\alpha <== x_{\alpha} ;; e^{x_1^2} <== e^{x^2_1} ;; x_1^* <== x^{*}_{1} ;; x_2^2 <== ✗ {x_1}^2
\sum_{k=1}^n a_k <== \sum\limits_{k=1}^{n} a_k ¦ \sum\limits^{n}_{k=1} a_k ¦ \sum\nolimits_{k=1}^{n} a_k
\sum_{k=1}^n a_k <== ✗ \sum^{n-1}_{k=1} a_k ;; \bigcup_{i=1}^n A_i <== \bigcup^n_{i=1} A_i ;; A_1^T <== A^T_1
\int_0^1 f(x)\,dx <== \int^1_0 f(x)\,dx ;; f_1'(x) <== f'_1(x) ¦ f^{\prime}_1(x) ;; x^\alpha y <== x^{\alpha}y
\int_{0}^{\pi}\sin x\,dx <== \int\limits_0^{\pi} \sin x\,dx ;; \int_0^2 x\,dx <== ✗ \int\limits_0^{1} x\,dx
\prod_{i=1}^{10} i^2 <== \prod^{10}_{i=1} i^2 ✗ \prod^{11}_{i=1} i^2 ;; \iint_D f\,dA <== \iint\limits_D f\,dA
\lim_{x\to 0} f(x) <== \lim\limits_{x\to 0} f(x) ;; \sum^{\infty}_{k\geq1} a_k <== \sum_{k\ge 1}^{\infty} a_k
x^2_\theta <== x_{\theta}^2 ;; \sigma_\mu^2 <== \sigma^2_{\mu} ;; f''(x) <== f^{\prime\prime}(x)
x_2^1 <== ✗ x_1^2 ;; x^1_2 <== ✗ x_1^2
# ends of sentences
|x| <== |x|. ¦ \left|x\right|. ✗ |y|. ¦ |x|.5 ;; 2|x+1| <== 2|x+1|. ;; \lfloor x\rfloor <== \lfloor x\rfloor.
|z| = 5 <== |z| = 5. ✗ |z| = 6. ;; (-\infty,\infty) <== (-∞, ∞). ;; \lceil x\rceil <== ✗ \lfloor x\rfloor.
5! <== 5!. ;; \|v\| <== \lVert v\rVert. ;; 90^\circ <== 90°. ✗ 91°. ;; x <== ✗ |x|. ;; 6 <== ✗ 5..
x' <== x'.
(1,2) <== \langle 1,2\rangle. ✗ \langle 2,1\rangle. ;; 5 <== 5\,. ¦ 5\text{.} ¦ 5 \\ ✗ 5!. ¦ 6\text{.}
# natural logarithms
\ln 5 <== \log_e 5 ¦ \log_{e} 5 ✗ \log_{10} 5 ¦ \log_2 5 ¦ \log_{e^2} 5 ;; \ln x <== \log_ex ✗ 2\log_e x
\log_e 5 <== \ln 5
\ln(x+1) <== \log_e(x+1) ;; \frac{\ln 3}{2} <== \frac{\log_e 3}{2} ;; -\ln 2 <== \log_e\frac12 ✗ \log_e\frac13
2\ln x <== 2\log_e x ;; \log_{10} 5 <== ✗ \log_e 5 ;; \ln x + 1 <== ✗ \log_e(x+1) ;; \ln y <== ✗ \log_e x
\ln 2 <== \log_{\mathrm{e}} 2 ¦ \log_{\text{e}}2 ✗ -\log_e 2 ;; \ln 6 <== \log_e 2 + \log_e 3 ✗ \log_e 5
# fonts
Yes <== \textnormal{Yes} ¦ \textup{Yes} ✗ \textnormal{No} ¦ \textup{Yes and no} ;; x = 5 <== ✗ \text{y = 5}
\text{Yes} <== \textsf{yes} ¦ \texttt{yes} ¦ \textsc{yes} ;; 5 <== ✗ \mathbf{x=6} ¦ \text{x = 6} ¦ \mathbf{5}6
\text{yes} <== \emph{yes} ¦ \hbox{yes} ;; 5\text{ kg} <== 5{\rm\,kg} ;; \ln 5 <== \mathrm{ln}\,5 ¦ \text{ln} 5
x+1 <== {\it x}+1 ✗ {\it y}+1 ;; 2x+1 <== \bm{2x+1} ;; x <== \mathnormal{x} ;; \text{cm} <== \rm{cm}
5\text{ cm} <== 5\textnormal{ cm} ¦ 5\,\textup{cm} ¦ 5 {\rm cm} ¦ 5\rm cm ¦ \text{5}\,\text{cm}
5\text{ cm} <== ✗ \text{5}\,\text{m} ;; v_{\text{max}} <== v_{\rm max} ;; \frac12 <== \mathbf{\frac{1}{2}}
5 <== {\bf 5} ¦ \mathsf{5} ¦ \mathbf{x=5} ¦ \text{x = 5} ¦ \text{$x=5$} ¦ \bold{5} ;; x=5 <== \boldsymbol{x=5}
5 <== ✗ 5\textsf{ or 6} ¦ 5\textup{ / 6} ¦ 5\textsl{ is wrong} ¦ {\bf 6} ¦ 5\emph{6} ¦ 5{\rm\ or\ 6}
\text{circle} <== \textsl{circle} ¦ \textmd{circle} ;; 5\text{ m} <== ✗ 5\textnormal{ cm} ¦ 5{\rm cm}
# remainders
2 <== 17 \bmod 5 = 2 ¦ 17 \mod 5 = 2 ¦ 17 \pmod 5 = 2 ¦ 17 \pmod{5} = 2 ¦ 17 \text{ mod } 5 = 2 ¦ 17 mod 5 = 2
2 <== 17 \operatorname{mod} 5 = 2 ¦ 17 \mathrm{mod}\ 5 = 2 ¦ 2 = 17 \bmod 5 ¦ 2^{10} \bmod 7 = 2
2 <== 2^{10} \mod{7} = 2 ¦ (-3) \bmod 5 = 2 ¦ 17 % 5 = 2 ;; n \equiv 3 \pmod 5 <== ✗ n \bmod 5 = 2
2 <== ✗ 17 \bmod 5 ¦ 2 = 17 \bmod 6 ;; n \bmod 5 = 2 <== n \equiv 7 \pmod 5 ;; 12 <== ✗ 17 \bmod 5 = 12
4 <== 3^{100} \bmod 7 = 4 ✗ 17 % 5 = 4 ;; n \equiv 2 \pmod 5 <== n \bmod 5 = 2 ¦ n \mod 5 = 2 ✗ n \bmod 7 = 2
17 \bmod 5 = 2 <== 2 ✗ 3 ;; 3 <== ✗ 17 \bmod 5 = 3 ¦ 17 \bmod 5 = 2 ¦ 17 \mod 5 = 3 ¦ 2^{10} \bmod 7 = 3
17 \mod 5 = 2 <== 17 \bmod 5 = 2 ;; 7 <== ✗ 17 mod 5 = 7
# programs
\frac{\pi}{2} <== pi/2 ¦ asin(1) ¦ \frac{pi}{2} ¦ np.pi/2 ✗ pi/3 ;; \arcsin\frac{10}{13} <== np.arcsin(10/13)
2\pi <== 2pi ¦ 2*pi ¦ 2 pi ✗ 3pi ;; (-\infty,3] <== (-oo, 3] ✗ (-oo, 3) ;; \sin x <== sin(x) ✗ sin(y) ¦ cos(x)
1024 <== 2**10 ;; |x| <== abs(x) ;; 64 <== ✗ 2**3**2 ;; x<3 <== ✗ x<=3 ;; 2^x <== ✗ 2**x_1 ;; e <== ✗ exp(1,2)
\frac{2\pi}{3} <== 2pi/3 ;; -\frac{\pi}{4} <== -pi/4 ;; \ln 2 <== ln(2) ✗ ln(3) ;; \frac{2}{\pi} <== ✗ 2*pi
\pi r^2 <== pi*r**2 ¦ pi r^2 ;; 3xy <== 3*x*y ;; 3 <== log2(8) ¦ log_10(1000) ;; \lceil x\rceil <== ✗ floor(x)
x^2+1 <== x**2+1 ✗ x**3+1 ;; \sqrt[3]{2} <== cbrt(2) ;; 5 <== x == 5 ✗ 9**9**9**9 ;; \tan\theta <== tan(theta)
x^2-3x+2 <== x**2 - 3*x + 2 ;; 1500000 <== 1.5e6 ;; \sin 2x <== 2*sin(x)*cos(x) ;; \frac{\ln x}{2} <== ln(x)/2
x^{10} <== x**10 ;; \log x <== log(x) ;; e^{-x} <== e^(-x) ;; \alpha <== ✗ beta ;; \sec 5 <== ✗ 5 sec
\frac{1}{x^2} <== x**-2 ¦ x^-2 ;; \infty <== infinity ¦ inf ¦ oo ✗ -oo ;; 10 <== binomial(5,2) ✗ binomial(2,5)
2^{n+1} <== 2^(n+1) ✗ 2^(n-1) ¦ 2^(n)+1 ;; (-\infty,2)\cup(3,\infty) <== (-infinity, 2) U (3, infinity)
\sqrt{x} <== x**(1/2) ¦ x**0.5 ;; \frac{\sqrt2}{2} <== sqrt(2)/2 ;; \beta + \alpha <== alpha + beta
x^2+2x+1 <== (x+1)**2 ;; e^x <== exp(x) ¦ e**x ;; x\le 3 <== x<=3 ✗ x<3 ;; -1\le x<2 <== -1<=x<2 ;; p <== ✗ pi
\sqrt2 <== sqrt(2) ¦ math.sqrt(2) ✗ sqrt(3) ¦ cbrt(2) ;; \sqrt{1+\sqrt2} <== sqrt(1+sqrt(2)) ✗ sqrt(1+sqrt(3))
2x <== 2*x ;; \lfloor x\rfloor <== floor(x) ;; \sqrt{x^2+1} <== sqrt(x**2+1) ;; \frac{1}{\sin 1} <== ✗ asin(1)
\frac{2\sqrt3}{3} <== 2*sqrt(3)/3 ;; (-\infty,\infty) <== (-inf, inf) ;; 120 <== factorial(5) ✗ factorial(4)
\frac{1+\sqrt5}{2} <== (1+sqrt(5))/2 ;; 0.001 <== 1e-3 ¦ 10^-3 ✗ 1e-4 ;; 2e^{-t}\sin 2t <== 2*exp(-t)*sin(2*t)
\sqrt{2} <== sqrt2 ;; e^2 x <== exp(2)*x ;; 2^{x_1} <== 2**x_1 ;; x = 0 <== ✗ x != 0 ;; (1,3) <== ✗ v=<1,2>
e^{-x/2} <== exp(-x/2) ;; \arctan 2 <== arctan(2) ;; e^{e^x} <== exp(exp(x)) ;; e^{x+1} <== ✗ exp(x)+1
-\infty <== -infinity ¦ -inf ¦ -oo ✗ inf ;; 6.02\times 10^{23} <== 6.02 x 10^23 ¦ 6.02*10**23 ✗ 6.02x10^22
[3,\infty) <== x >= 3 ;; x^{n+1} <== x**(n+1) ;; 0 <== ✗ oo ;; 2\log 8 <== ✗ log2(8) ;; x^3 <== ✗ sqrt(x)**3
x\ne 0 <== x != 0 ✗ x != 1 ;; x^{12} <== ✗ x**1*2 ;; \sqrt{2+1} <== ✗ sqrt(2)+1 ;; e^{2x} <== ✗ exp(x) ¦ e^-2x
\frac{\sqrt3}{2} <== sin(pi/3) ;; x^2 <== `x**2` ✗ x**12 ¦ x**-2 ;; \sqrt{\frac23} <== ✗ sqrt(2)/3
\theta = \frac{\pi}{6} <== theta = pi/6 ;; \pi e <== ✗ pie ;; (-\infty,2]\cup(3,\infty) <== ✗ (-oo,2) U (3,oo)
4 <== ✗ -2**2 ;; 2+x <== ✗ 2*x ;; x <== ✗ abs(x)
# infinity in words
\infty <== \text{infinity} ¦ \text{Infinity} ¦ \text{positive infinity} ¦ +\infty ¦ \mathrm{inf}
\infty <== \text{infinity}. ¦ x = \text{infinity} ;; \infty <== ✗ -\text{infinity} ¦ \text{not infinity}
\infty <== ✗ \text{infinity or }5 ¦ \text{finity} ¦ \text{negative infinity} ¦ \text{minus infinity}
\text{infinity} <== \infty ;; -\infty <== negative infinity ;; -\infty <== ✗ \text{infinity}
-\infty <== -\text{infinity} ¦ \text{negative infinity} ¦ \text{minus infinity} ¦ \text{-infinity}
(-\infty, 2) <== (-\text{infinity}, 2) ✗ (-\text{infinity}, 2] ;; \text{negative infinity} <== ✗ \infty
0 <== ✗ \text{infinity} ;; 5 <== ✗ \text{infinite}
# nothing
\text{no solution} <== \text{no solutions} ¦ \text{No real solutions} ¦ \text{There are no solutions.}
\text{no solution} <== \emptyset ¦ \textbf{no solutions} ;; \text{no real solutions} <== \text{no real roots}
\text{no solution} <== ✗ \text{one solution} ¦ \text{infinitely many solutions} ¦ \text{no integer solutions}
\text{no solution} <== ✗ \text{no} ¦ 0 ¦ \text{undefined} ¦ \text{not no solution} ¦ \text{no solution or }5
\text{No solution} <== no solutions ;; \text{The limit does not exist} <== ✗ \text{The inverse does not exist}
no solutions <== \text{No solution} ;; \text{infinitely many} <== \text{infinitely many solutions}
\text{no real solution} <== \text{No real solutions} ;; \text{no positive solutions} <== ✗ \text{no solution}
\text{No real solutions.} <== \text{no solution} ;; \text{No integer solution} <== \text{no integer solutions}
\text{no solutions} <== \text{The equation has no solution} ;; \text{does not exist} <== \text{DNE}
\varnothing <== \text{no solution} ;; \emptyset <== \text{empty set} ¦ \{\ \} ✗ \{\emptyset\}
\{\} <== \text{The empty set} ;; dne <== \text{Does not exist} ;; 5 <== ✗ \text{no solutions}
\text{No solutions} <== ∅ ;; DNE <== \text{D.N.E.} ;; 0 <== ✗ \emptyset
\text{DNE} <== DNE ¦ \text{The limit does not exist.} ✗ \text{exists} ¦ \text{no solution}
\text{is undefined} <== \text{undefined} ;; \text{infinitely many solutions} <== \text{infinite solutions}
\text{undefined} <== \text{not defined} ;; \text{no rational solutions} <== ✗ \text{no integer solutions}
\text{infinitely many solutions} <== ✗ \text{no solutions} ¦ \text{finitely many solutions}
# environments
5 <== \begin{aligned} x &= 5 \end{aligned} ¦ \begin{aligned} 5 \end{aligned}
5 <== \begin{split} S &= 2+3 \\ &= 5 \end{split} ¦ \[ 5 \] ¦ \( 5 \) ¦ $$5$$ ¦ **5**
5 <== \begin{array}{c} 5 \end{array} ¦ \begin{array}{l} x=5 \end{array} ¦ \begin{matrix} 5 \end{matrix}
5 <== ✗ \begin{aligned} x &= 6 \end{aligned} ¦ \begin{aligned} x &= 5 \\ y &= 6 \end{aligned}
5 <== ✗ \begin{gathered} 5 \\ 6 \end{gathered} ¦ \[ 6 \] ¦ $$5$$ or $$6$$ ¦ **6**
x^2+1 <== \begin{align*} x^2+1 \end{align*} ✗ \begin{align*} x^2+2 \end{align*}
y = 2x+1 <== \begin{align} y &= 2x+1 \end{align} ;; (1,2) <== ✗ \begin{aligned} x &= 2 \\ y &= 1 \end{aligned}
\frac12 <== \begin{gathered} \frac12 \end{gathered} ;; 0 <== ✗ \begin{gathered} 3 \\ -3 \end{gathered}
12 <== \begin{gather*} 12 \end{gather*} ;; x=1, y=2 <== \left\{\begin{array}{l} x=1\\ y=2\end{array}\right.
x = 3 <== \begin{equation} x = 3 \end{equation} ✗ \begin{equation} y = 3 \end{equation}
3 <== \begin{equation*} x = 3 \end{equation*}
7 <== \begin{aligned}[t] 7 \end{aligned} ¦ \begin{alignedat}{2} 7 \end{alignedat}
7 <== \begin{center} 7 \end{center} ;; (1,2) <== ✗ \left\{\begin{array}{l} x=2\\ y=1\end{array}\right.
(1,2) <== \begin{aligned} x &= 1 \\ y &= 2 \end{aligned} ;; 6 <== ✗ \begin{split} S &= 2+3 \\ &= 6 \end{split}
(1,2) <== \left\{\begin{aligned} x&=1\\ y&=2\end{aligned}\right. ;; \begin{aligned} x &= 5 \end{aligned} <== 5
\begin{pmatrix} 1 & 2\end{pmatrix} <== \begin{aligned} \begin{pmatrix} 1 & 2 \end{pmatrix} \end{aligned}
\begin{pmatrix} 1 & 2\end{pmatrix} <== ✗ \begin{aligned} \begin{pmatrix} 2 & 1 \end{pmatrix} \end{aligned}
# colours
5 <== \color{red}{5} ¦ {\color{blue} 5} ¦ \color{red} 5 ¦ \textcolor{red}{5} ¦ \textcolor[rgb]{1,0,0}{5}
5 <== \color[HTML]{FF0000} 5 ¦ \colorbox{yellow}{$5$} ¦ \fcolorbox{red}{white}{5} ;; x+1 <== \color{red}{x+1}
5 <== ✗ \color{red}{6} ¦ {\color{blue} 6} ¦ \textcolor{red}{5}6 ¦ \textcolor{red}{5}\textcolor{blue}{6}
5 <== ✗ \textcolor{white}{6}5 ¦ \textcolor{red}{5 \text{ or } 6} ¦ \textcolor{red}{\cancel{5}}
5 <== ✗ \color{red}{5}\text{ is wrong} ¦ \textcolor{5}{6} ;; x^2 <== x^{\color{red}2} ✗ x^\textcolor{red}{12}
\frac12 <== \textcolor{red}{\frac{1}{2}} ¦ \frac{\color{red} 1}{\color{blue} 2} ¦ \frac{\textcolor{red}{1}}{2}
\frac12 <== ✗ \frac{\color{red} 2}{\color{blue} 1} ;; (1,2) <== (\color{red}{1}, \color{blue}{2})
x^{10} <== x^\textcolor{red}{10} ;; \sin x <== \sin\textcolor{red}{x} ;; Yes <== \textcolor{red}{\text{Yes}}
23 <== 2\textcolor{blue}{3} ;; 6 <== ✗ 2\textcolor{red}{3}
(x+1)^2 <== {\color{red} x+1}^2 ;; 14 <== ✗ 2\textcolor{red}{3+4} ;; x+1^2 <== ✗ {\color{red} x+1}^2
# introductions
5 <== \therefore x=5 ¦ \therefore 5 ¦ ∴ 5 ¦ \Rightarrow 5 ¦ \quad\therefore\quad 5 ¦ = 5 ¦ &= 5
5 <== 5\quad\blacksquare ¦ 5\ \checkmark ;; \frac12 <== \therefore\ \frac12 ;; Yes <== \therefore \text{Yes}
5 <== ✗ \therefore x=6 ¦ \therefore 5 \text{ or } 6 ¦ \Rightarrow 6 ¦ = 6 ¦ == 6 ¦ \because 6 ¦ \therefore
5 <== ✗ 6\quad\blacksquare ;; y=2x+1 <== \therefore y=2x+1 ;; 6 <== ✗ 6 \therefore 5
x = 5 <== \implies x = 5 ✗ \implies x = 6 ;; x=5 <== \Longrightarrow x=5 ✗ \therefore y=5
# layout
5 <== \displaystyle 5 ¦ \scriptstyle 5 ¦ \ensuremath{5} ¦ \hspace{1cm}5 ¦ \hspace*{-2pt}5
5 <== x\hspace{2mm}=\hspace{2mm}5 ¦ \phantom{0}5 ¦ 5\phantom{\frac12} ¦ \vphantom{\frac12}5 ¦ \hphantom{-}5
5 <== \mathstrut 5 ¦ \strut 5 ¦ \large 5 ¦ {\Large 5} ¦ \huge\textbf{5} ¦ \mspace{3mu}5 ¦ 5\kern 3pt
5 <== \mkern 3mu 5 ¦ \smash{5} ¦ \underline{5} ¦ \fbox{5} ¦ \bbox[yellow]{5} ¦ x = 5\nonumber ¦ \mathrel{x=}5
5 <== \raisebox{2pt}{5} ¦ \left. 5 \right. ¦ \boldmath 5 ¦ \leavevmode 5 ¦ 5{} ¦ {}5 ;; x = 5 <== x = 5\tag{1}
5 <== ✗ \displaystyle 6 ¦ \phantom{5} ¦ \phantom{5}6 ¦ \hspace{5cm} ¦ \hspace{5cm}6 ¦ \ensuremath{6}
5 <== ✗ x = 6\tag{5} ¦ \fbox{5} \fbox{6} ¦ \underline{5}\,\underline{6} ¦ \raisebox{5pt}{6} ¦ \left. 6 \right.
\frac12 <== \displaystyle\frac12 ¦ \ensuremath{\frac{1}{2}} ¦ \displaystyle{\frac{1}{2}}
\frac12 <== {\displaystyle \frac{1}{2}} ;; \sqrt5 <== \sqrt{\mathstrut 5} ;; \pi r^2 <== \pi\displaystyle r^2
(1,2) <== \Bigl(1,2\Bigr) ✗ \Bigl(2,1\Bigr) ;; 56 <== ✗ 5\phantom{6} ¦ 5\hspace{1cm}6 ¦ 5\phantom{0}6
|x| <== \biggm|x\biggm| ;; 11 <== ✗ 5\mathstrut 6 ;; x^2 <== ✗ \left. x^2 \right|_{3}
\operatorname{lcm}(4,6) <== \operatorname*{lcm}(4,6) ✗ \operatorname*{gcd}(4,6) ;; 1 <== ✗ 2\mathstrut\frac12
30 <== ✗ 5\mathstrut 6
# signs of print
x^4 <== x\u2074 ✗ x\u2075 ;; x_1 <== x\u2081 ✗ x\u2082 ;; 0.2 <== \u2155 ;; 1011_2 <== 1011\u2082 ✗ 1011\u2083
x^2+1 <== x²+1 ✗ x²+2 ;; \sqrt{x+1} <== √(x+1) ;; x <== ✗ x\u00b9\u2070 ;; \sqrt{2} <== ✗ \u221b2
x^{10} <== x\u00b9\u2070 ;; 0.625 <== \u215d ✗ \u215b ;; \sqrt[3]{2} <== \u221b2 ;; \sqrt{x}+1 <== ✗ √(x+1)
0.001 <== 10\u207b\u00b3 ✗ 10\u207b\u2074 ;; 2^{n+1} <== 2\u207f\u207a\u00b9 ✗ 2\u207f\u207a²
x^2_1 <== x\u2081² ;; 2\sqrt3 <== 2√3 ;; x^1 <== ✗ x\u2081 ;; 1011 <== ✗ 1011\u2082 ;; \theta <== ✗ \u03c6
\phi <== \u03c6 ;; 5 <== ✗ 5\u2081
# fractions
\frac{1}{2} <== \dfrac12 ¦ \tfrac12 ✗ \dfrac21 ;; 10 <== \dbinom52 ¦ \tbinom{5}{2} ¦ {5 \choose 2} ✗ \dbinom25
0.1 <== \frac1{10} ✗ \frac1{12} ;; 2 <== \sqrt[3]8 ✗ \sqrt[3]9 ;; 2.4 <== \frac{\text{12}}{\text{5}}
0.5 <== \frac{1}2 ;; 5 <== ✗ {5 \choose 3}
\frac{2}{\pi} <== \frac2\pi ;; \frac{\sqrt{3}}{2} <== \dfrac{\sqrt3}2 ;; \sqrt{x} <== x^\frac12 ✗ x^\frac13
\frac12 <== \cfrac{1}{2} ¦ \frac{\text{1}}{\text{2}} ¦ \nicefrac{1}{2} ¦ {1 \over 2} ¦ 1 \over 2
\frac12 <== ✗ \frac{\text{2}}{\text{1}} ¦ \nicefrac{2}{1} ¦ {2 \over 1} ¦ 1 \over 3 ;; 0.75 <== \sfrac{3}{4}
\frac{\pi}{2} <== \frac\pi2 ¦ \frac{\pi}2 ✗ \frac\pi3 ¦ \frac2\pi ;; \frac{\sqrt3}{2} <== {\sqrt{3} \over 2}
60\text{ km/h} <== 60\frac{\text{km}}{\text{h}} ✗ 60\frac{\text{m}}{\text{s}} ;; \frac{1}{23} <== ✗ \frac12 3
""")
RIGHT, WRONG = ({kind: pairs[place] for kind, pairs in _JUDGED.items()} for place in (0, 1))

# Ends of texts of rows that look for a line; `⏎` is a line's end.
STATED = paired_by_kind(r"""
# gsm8k
3 <== #### \boxed{3} ¦ #### $\boxed{3}$ ¦ #### **\boxed{3}** ¦ ####⏎3 ¦ ####⏎⏎3⏎ ¦ ####⏎\boxed{3}
3 <== #### **3** ¦ **#### 3** ¦ #### `3` ¦ #### $3$ ¦ #### \(3\) ¦ #### \$3 ¦ #### €3 ¦ #### Answer: 3
3 <== #### The final answer is 3. ¦ #### x = 3 ¦ #### = 3 ¦ #### \text{3} ¦ #### \boxed{3 \text{ apples}}
3 <== #### 3 hours ¦ #### Final Answer⏎3 ¦ #### Final Answer:⏎⏎**3** ;; -3 <== #### -3
50 <== #### 50% ¦ #### 50\% ¦ #### 50 %
1250 <== #### $1,250.00 ¦ #### 1,\!250 ¦ #### 1 250 ¦ #### 1{,}250
# prime_math
34 <== Answer: 34 ¦ Answer: **34** ¦ **Answer: 34** ¦ **Answer:** 34 ¦ **Answer**: 34 ¦ *Answer:* 34
34 <== __Answer:__ 34 ¦ ### Answer: 34 ¦ ## Answer⏎⏎34 ¦ Answer:⏎34 ¦ Answer:⏎⏎**34**⏎ ¦ Answer:⏎\[⏎34⏎\]
34 <== Answer: $$34$$ ¦ Answer: $34$. ¦ Answer: $34 ¦ Answer: \(34\) ¦ Answer: `34` ¦ Answer: **$34$**
34 <== Answer: **`34`** ¦ Answer: "34" ¦ Answer: 34 cm ¦ Answer: $34$ cm ¦ Answer: **34 cm**
34 <== Answer: 34 apples ¦ Answer: 34 square units ¦ Answer: 34\text{ cm} ¦ Answer: 34⏎⏎Hope this helps!
34 <== Answer: 34⏎⏎Let me know if you have any questions. ¦ **Answer: 34**⏎⏎I hope it is correct.
34 <== Answer: 34⏎⏎This completes the solution. ¦ Answer: 34⏎Thank you! ¦ Answer: 34⏎⏎So there are 34 ways.
34 <== Final Answer: 34 ¦ **Final Answer:** 34 ¦ The final answer is: 34 ;; (1,2) <== Answer: $(1, 2)$
34 <== Final Answer: The final answer is $34$. I hope it is correct. ¦ ANSWER: 34 ¦ Answer\uff1a34
34 <== Answer: x = 34 ¦ Answer: **x = 34** ¦ Answer: \textcolor{red}{34} ;; \frac{\pi}{2} <== Answer: pi/2
\frac{1}{2} <== Answer:⏎$$⏎\frac12⏎$$ ;; 2x <== Answer: **2*x** ;; x^2 <== Answer: x**2
""")

MISSTATED = paired_by_kind(r"""
# gsm8k
3 <== #### \boxed{4} ¦ #### \boxed{3} or 4 ¦ #### \boxed{3}\boxed{4} ¦ ####⏎4 ¦ ####⏎3 or 4 ¦ so 3⏎####⏎
3 <== #### 3⏎#### 4 ¦ #### **4** ¦ #### 3 million ¦ #### **3** million ¦ #### \boxed{3} thousand
3 <== #### 3 dozen ¦ #### 1/3 ¦ #### 3/1 ¦ #### -3 ¦ #### x = 4 ¦ #### Step 3 ¦ #### 3, 4 ¦ #### 3e4
0.5 <== #### 50% ;; 50 <== #### 0.5 ¦ #### 5% ;; 1250 <== #### 1,251 ;; 125 <== #### 1 25
# prime_math
34 <== Answer: **43** ¦ **Answer:** 43 ¦ Answer: `43` ¦ Answer: $34$ or $43$ ¦ Answer: **34** or **43**
34 <== Answer: 34⏎Answer: 43 ¦ Answer: 34⏎⏎No, that is wrong. ¦ Answer: 34⏎⏎Actually, it is 43.
34 <== Answer: 34⏎43 ¦ Answer: 34⏎⏎The answer is 43. ¦ Answer: 34⏎⏎Another value, $x$, was 35. ¦ Answer:⏎43
34 <== 34⏎Answer: ¦ Answer:⏎\[⏎43⏎\] ¦ Answer: 34 million ¦ Answer: **34 million** ¦ Answer: 34 dozen
34 <== Answer: 34% ¦ Answer: 34 percent ¦ Answer: 34 and a half ¦ Answer: not 34 ¦ Answer: 34 is wrong
34 <== ## Answer⏎⏎43⏎⏎It is not 34. ¦ Answer: 3*4 ¦ Answer: 34⏎⏎Wait, let me recheck.
34 <== Answer: 34⏎⏎The area is thirty. ¦ Answer: **3**4 ;; x^2 <== Answer: x**3 ;; (1,2) <== Answer: $(2, 1)$
""")
