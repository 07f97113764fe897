"""Every page is of one version, and every link of it leads somewhere, down to the heading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pages.pages import anchors, links
from tests.conftest import ROOT

FOLDERS = ("docs", "benchmarks", "examples", "deploy", "config")
PAGES = sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])


def broken(page: Path) -> Iterator[str]:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            yield f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_of_it(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_two_versions_of_a_merge(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    pages = {page.name for page in index.parent.glob("*.md")} - {index.name}
    assert pages <= set(links(index))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](other.md)", []),
        ("[a](other.md#to-add-)", []),
        ("[a](#here-it-is)", []),
        ("`[a](none.md)`", []),
        ("[a](none.md)", ["none.md: there is no such file"]),
        ("[a](other.md#to-add)", ["other.md#to-add: there is no such heading"]),
        ("[a](#there)", ["#there: there is no such heading"]),
    ],
)
def test_a_link_that_leads_nowhere_is_seen(text: str, said: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("## To add ...\n", encoding="utf-8")
    (tmp_path / "page.md").write_text(f"# Here, it is\n\n{text}\n", encoding="utf-8")
    assert list(broken(tmp_path / "page.md")) == said
