"""Which standards of C++ a program may be written in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests
from tests.support.tried_again import judged

pytestmark = pytest.mark.process

ROW = {"language": "cpp", "test_cases": [{"input": "3 5\n", "output": "8\n"}]}
OF_2020 = """
#include <algorithm>
#include <bit>
#include <compare>
#include <concepts>
#include <iostream>
#include <map>
#include <numbers>
#include <numeric>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <vector>
template <std::integral T> T twice(T x) { return x + x; }
template <class T> concept Number = requires(T a) { { a + a } -> std::convertible_to<T>; };
auto plus(Number auto a, Number auto b) { return a + b; }
struct Point { int x = 0, y = 0; auto operator<=>(const Point&) const = default; };
consteval int four() { return 4; }
int main() {
    using enum std::ios_base::seekdir;
    int a, b;
    std::cin >> a >> b;
    std::vector<int> xs{4, 1, 3};
    std::ranges::sort(xs);
    for (int skipped = 0; int x : xs | std::views::filter([](int x) { return x > 1; })) skipped += x;
    std::erase_if(xs, [](int x) { return x > 3; });
    std::map<int, int> seen{{1, 2}};
    Point p{.x = 1, .y = 2};
    bool ok = seen.contains(1) && std::set<int>{1}.contains(1) && std::popcount(7u) == 3 && std::ssize(xs) == 2
        && p < Point{.x = 2, .y = 0} && std::midpoint(2, 4) == 3 && std::numbers::pi > 3 && twice(2) == four()
        && std::string("abc").starts_with("ab") && std::span<int>(xs).size() == 2
        && []<class T>(T x) { return x; }(true);
    if (ok) [[likely]] std::cout << plus(a, b) << std::endl;
}
"""
# Names that the standard of 2020 took: words of the language, and functions that `using namespace std` brings.
OF_2017 = """
#include <iostream>
using namespace std;
int requires(int concept) { return concept; }
int char8(int co_await) { return co_await; }
int main() {
    int co_yield; cin >> co_yield;
    int co_return; cin >> co_return; cout << requires(co_yield) + char8(co_return) << endl;
}
"""


@pytest.fixture(scope="module")
def scorer() -> Iterator[CodeTests]:
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    built = CodeTests(CodeConfig(case_timeout_s=20.0), ScorersConfig())
    yield built
    built.close()


@pytest.mark.parametrize(
    ("program", "value"),
    [(OF_2020, 1.0), (OF_2017, 1.0), (OF_2017.replace("co_yield;", "co_yield"), 0.0)],
    ids=["2020", "2017", "none"],
)
def test_a_program_of_either_standard_is_judged(scorer: CodeTests, program: str, value: float) -> None:
    score = judged(scorer, program, ROW, tag="cpp")
    assert score.value == value, score.reason
    assert ("does not compile" in score.reason) is (value == 0.0)
