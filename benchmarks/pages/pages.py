"""Finds what can be checked on the pages: commands in fenced blocks and in the text, links and headings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from benchmarks.results import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
PROGRAMS = frozenset(
    {
        "millrace",
        "python",
        "make",
        "docker",
        "curl",
        "cp",
        "mkdir",
        "echo",
        "export",
        "git",
        "cd",
        "scripts/redis_tls.sh",
        "deploy/slurm/submit.sh",
        "squeue",
        "scancel",
        "kubectl",
        "hf",
    }
)
COMMANDS = frozenset({"", "console", "sh", "bash"})  # languages of blocks that people type
OTHERS = frozenset({"jsonl", "python", "yaml"})  # of blocks that nobody does; a third kind is an error
PROMPT = "$ "
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CONTINUED = re.compile(r"\s*\\\n\s*")  # a line that ends with a backslash goes on in the next one
RECIPES = sorted((ROOT / "config" / "recipes").glob("*.yaml"))
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=")
SETTING = re.compile(r"[a-z_]+(\.[a-z_0-9]+)+=")
RUNS = frozenset({"RUN", "first", "demo"})  # names of a run: one command, whichever it names
NOT_YET_RUN = "not yet run"  # says a line that needs a GPU or several machines
ELSEWHERE = (  # who runs a command that `benchmarks.pages.proof` does not
    (r"make test", ".ci/run"),
    (r"millrace chaos \S+ --minutes \d+", "tests/e2e/test_chaos_command.py"),
    (r"millrace dead (show|retry|purge) RUN .+", "tests/tools/dead/test_command.py"),
    (r"millrace agent \S+ .*--endpoint .+", "tests/tools/agent/test_command.py"),
    (r"millrace evaluate \S+ .*--endpoint .+", "tests/tools/evaluate/test_outside.py"),
    (r"millrace judge-check \S+ --task judge", "tests/tools/judge_check/test_command.py"),
    (r"millrace import .+", "tests/tools/imports/test_command.py"),
    (r"millrace prepare .+", "tests/tools/prepare/test_page.py"),
    (r"docker compose .+", "benchmarks/compose/pages.py"),
    (r"cp deploy/slurm/settings\.sh .+", "benchmarks/slurm/proof.py"),
    (r"deploy/slurm/submit\.sh .+", "benchmarks/slurm/proof.py"),
    (r"(squeue|scancel) .+", "benchmarks/slurm/proof.py"),
    (r'REDIS_URL="\$\(cat .+\)" millrace top .+', "benchmarks/slurm/proof.py"),
    (r'export PASSWORD="\$\(openssl .+\)"', "tests/docs/test_pages_commands.py"),
)
REDIS_PAGE = "redis-cli.md"  # each of its commands: tests/docs/test_redis_cli_page.py
FLEET_PAGE = "fleet.md"  # each of its commands: benchmarks/fleet/proof.py


class Line(NamedTuple):
    """One command of a page, as it stands there."""

    page: Path
    text: str  # with its comment

    @property
    def command(self) -> str:
        """The command without its comment and its prompt."""
        return re.sub(r"\s+#(\s.*)?$", "", self.text).removeprefix(PROMPT).strip()

    @property
    def words(self) -> list[str]:
        """The command's words without variables before it; a program of the environment by its name."""
        words = shlex.split(self.command)
        words = words[len(self.variables) :]
        return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []

    @property
    def variables(self) -> dict[str, str]:
        """The variables that the line sets for this command alone."""
        found: dict[str, str] = {}
        for word in shlex.split(self.command):
            if not VARIABLE.match(word):
                break
            name, _, value = word.partition("=")
            found[name] = value
        return found

    def __str__(self) -> str:
        return f"{self.page.name}: {self.command}"


def fences(page: Path) -> list[tuple[str, list[str]]]:
    """Yield the language and the lines of each fenced block; of commands, a line that goes on in the next is one."""
    found = []
    for words, text in FENCE.findall(page.read_text(encoding="utf-8")):
        language = words.split(" ")[0]
        whole = CONTINUED.sub(" ", text) if language in COMMANDS else text
        found.append((language, whole.splitlines()))
    return found


def is_command(line: str) -> bool:
    """Tell whether a line of a block begins with a program that people type."""
    try:
        words = Line(Path(), line).words
    except ValueError:  # a quotation mark of an answer
        return False
    return bool(words) and words[0] in PROGRAMS


def lines() -> list[Line]:
    """Return every command of a fenced block, once for each page; in a console only what follows a prompt is one."""
    found = []
    for page in PAGES:
        for language, block in fences(page):
            if language not in COMMANDS:
                continue
            typed = (
                [line for line in block if line.startswith(PROMPT)]
                if language == "console"
                else [line for line in block if is_command(line)]
            )
            found += [Line(page, line) for line in typed]
    return list({str(line): line for line in found}.values())


def same(command: str) -> str:
    """Give a command one form, whatever the run is called and wherever the environment lies."""
    return " ".join("RUN" if word in RUNS else word for word in command.replace(".venv/bin/", "").split())


def wanted() -> list[Line]:
    """List the commands that `benchmarks.pages.proof` has to type: all but those run elsewhere, or not yet."""
    return [
        line
        for line in lines()
        if line.page.name not in {REDIS_PAGE, FLEET_PAGE}
        and NOT_YET_RUN not in line.text
        and not any(re.fullmatch(pattern, same(line.command)) for pattern, _ in ELSEWHERE)
    ]


def unknown_languages() -> list[str]:
    """List languages of blocks that are neither typed nor known not to be: commands in such a block are never seen."""
    return [
        f"{page.name}: {language}"
        for page in PAGES
        for language, _ in fences(page)
        if language not in COMMANDS | OTHERS
    ]


def recipe_lines() -> list[Line]:
    """List the commands in the recipes' comments: those between backticks, and those on a line of their own."""
    found = []
    for recipe in RECIPES:
        comments = recipe_comments(recipe)
        text = " ".join(comments)
        codes = [code for code in CODE.findall(text) if is_command(code)]
        own = [line.strip() for line in comments if line.startswith("  ") and is_command(line)]
        found += [Line(recipe, line) for line in (*codes, *own)]
    return list({str(line): line for line in found}.values())


def recipe_settings() -> list[Line]:
    """List the settings in the recipes' comments: the words of indented lines, all of which are `key=value`."""
    found = []
    for recipe in RECIPES:
        own = [line.strip() for line in recipe_comments(recipe) if line.startswith("  ")]
        settings = [line for line in own if all(SETTING.match(word) for word in shlex.split(line))]
        if settings:
            found.append(Line(recipe, " ".join(settings)))
    return found


def recipe_comments(recipe: Path) -> list[str]:
    """Return a recipe's comments, each without what begins it."""
    found = (line.partition("#") for line in recipe.read_text(encoding="utf-8").splitlines())
    return [
        comment.removeprefix(" ")
        for before, sign, comment in found
        if sign and (not before or before.endswith(" "))
    ]


def strays() -> list[Line]:
    """List lines in a block of commands that are no command: readers would type them all the same."""
    return [
        Line(page, line)
        for page in PAGES
        for language, block in fences(page)
        if language in COMMANDS - {"console"} and any(map(is_command, block))
        for line in block
        if line.strip() and not line.lstrip().startswith("#") and not is_command(line)
    ]


def mentions(program: str) -> list[Line]:
    """List what the text of the pages says of a program between backticks."""
    texts = ((page, FENCE.sub("", page.read_text(encoding="utf-8"))) for page in PAGES)
    found = [
        Line(page, code)
        for page, text in texts
        for code in CODE.findall(text)
        if code.startswith(f"{program} ")
    ]
    return list({str(line): line for line in found}.values())


def anchors(page: Path) -> set[str]:
    """List what a link may name behind `#`, as GitHub makes it of headings; the second of a name has -1."""
    found: list[str] = []
    for heading in re.findall(
        r"^#{1,6} (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{name}-{sum(other == name for other in found)}" if name in found else name)
    return set(found)


def links(page: Path) -> list[str]:
    """List the targets of a page's links that lead to no other site."""
    text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    return re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text)
