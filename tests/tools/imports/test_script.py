"""A script is run by bash, behind walls: the words are bash's own, and nothing else of the script happens."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from config.explanations import ConfigError
from sandbox.limits import Limits
from sandbox.local.sandbox import LocalSandbox
from sandbox.program import SandboxMissing
from sandbox.walls.seccomp import Walls
from tests.support.told import Patch
from tools.imports.reading import read
from tools.imports.script import Script, read_script
from tools.imports.shell import behind_walls
from tools.imports.shell.writes import without_writes
from tools.imports.theirs import UNKNOWN
from tools.imports.translation import translate

pytestmark = pytest.mark.process

CALL = "python -m verl.trainer.main_ppo"
# Stands in for python, where bash itself is asked what it says: writes down what it was given.
JUDGE = '#!/bin/bash\nprintf "%s\\0" "$@" >> "$JUDGED"\n'

# What a script does before and in its call; arguments of those that have some.
SCRIPTS = {
    "two tests": "if [ a = a ] && [ b = b ]; then A=1; else A=2; fi\n{call} k=$A",
    "one of two tests": "if [ a = b ] || [[ b == b* && -z '' ]]; then A=1; else A=2; fi\n{call} k=$A",
    "test and or": "[ -n x ] && A=1 || A=2\n{call} k=$A",
    "case": "X=b\ncase $X in a) K=1;; b|c) K=2;; *) K=3;; esac\n{call} k=$K",
    "arguments": 'while [[ $# -gt 0 ]]; do case $1 in --model) M=$2; shift 2;; *) break;; esac; done\n{call} m=$M "$@"',
    "no arguments": 'N=4\nwhile [[ $# -gt 0 ]]; do case $1 in -n) N=$2; shift 2;; esac; done\n{call} n=$N "$@"',
    "substitution": "M=org/name\nN=$(echo \"$M\" | cut -d'/' -f2 | tr a-z A-Z)\n{call} n=$N",
    "awk": "N=$(echo 'a b c' | awk '{{print $2}}')\n{call} n=$N",
    "function": 'run() {{ local n=$1; shift; {call} n=$n "$@"; }}\nrun 3 a=1',
    "array": "A=(a=1 'b=x y')\nA+=(c=3)\n{call} \"${{A[@]}}\" n=${{#A[@]}} l=${{A[${{#A[@]}}-1]}}",
    "apostrophe in an array's comment": 'A=(\n  a=1 # don\'t\n  b=2\n)\n{call} "${{A[@]}}"',
    "associative": "declare -A M=([x]=1 [y]=2)\n{call} k=${{M[y]}}",
    "joined": 'F=(a b)\nJ=$(IFS=,; echo "${{F[*]}}")\n{call} "k=[$J]"',
    "heredoc": "read -r -d '' T <<'EOF' || true\nk > 1\nEOF\n{call} \"t=$T\"",
    "set": 'set -- a=2 "$@"\n{call} "$@"',
    "arithmetic": "B=3\n((B*=2))\nlet B=B*2\n{call} b=$B c=$((B > 5 ? 7 : 8)) d=$((B % 5))",
    "unset": "B=1\nunset B\n{call} b=${{B:-8}}",
    "ansi quotes": "{call} k=$'a\\tb'",
    "slices": "X=abcdef\n{call} a=${{X:0:4}} b=${{X: -2}} c=${{X/b/B}} d=${{X^^}} e=${{X%%c*}}",
    "eval": 'C="{call} a=1 b=\'x y\'"\neval "$C"',
    "bash -c": 'bash -c "{call} a=1"',
    "for": "for n in 4; do {call} n=$n; done",
    "printf": "printf -v X '%03d' 7\n{call} x=$X",
    "trailing backslash": "{call} a=1 \\",
    "redirections": "{call} a=1 > logs/x.log 2>&1",
    "tee": "set -o pipefail\n{call} a=1 2>&1 | tee -a logs/x.log",
    "group": "{{ {call} a=1; }} >> log",
    "sleep and wait": "{call} a=1 &\nwait\nsleep 0.1",
    "empty": '{call} a= "" ${{NONE:-}} b=""',
    "braces": "{call} {{a,b}}=1",
    "quotes of lists": "{call} 'k=[\"a\",\"b\"]' l='{{x:1}}' m=\\[1,2\\]",
    "here-string": "read -r A B <<< 'x y'\n{call} a=$A b=$B",
    "mapfile": "mapfile -t L < <(printf '%s\\n' p q)\n{call} l=${{L[1]}}",
    "strict": "set -euo pipefail\nX=${{X:-1}}\n{call} x=$X",
    "trap": "trap 'echo bye' EXIT\n{call} a=1",
    "its own folder": 'D=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)\n{call} d=$D z=$0',
    "another file": "source ./common.sh\n{call} c=$COMMON",
    "home": "{call} h=$HOME t=~/x",
    "unset bare": "{call} x=a$NOWHERE",
    "getopts": "while getopts 'm:' o; do case $o in m) M=$OPTARG;; esac; done\n{call} m=$M",
    "sed": "V=$(sed -n 's/^COMMON=//p' common.sh)\n{call} v=$V",
    "nested function": 'a() {{ echo "$1-$2"; }}\nb() {{ a "$1" x; }}\n{call} k=$(b 1)',
    "indirect": "V=W\nW=3\n{call} k=${{!V}}",
    "continue": "for i in 1 2 3; do [ $i = 2 ] || continue; {call} i=$i; done",
    "until": "i=0\nuntil [ $i -ge 3 ]; do i=$((i+1)); done\n{call} i=$i",
    "a match": "[[ model-7b =~ ([0-9]+)b ]]\nX=${{BASH_REMATCH[1]}}\n{call} x=$X y=${{BASH_REMATCH[0]}}",
    "a match kept while something is called": "[[ a1 =~ ([0-9]) ]] && ls . > /dev/null\ncd .\n{call} x=${{BASH_REMATCH[1]}}",
    "prefixes of names": "MY_A=1\nMY_B=2\n{call} k=${{!MY_*}}",
    "a script in a here-document": "bash <<'EOF'\n{call} a=1\nEOF",
    "exported function": "run() {{ {call} a=$1; }}\nexport -f run\nbash -c 'run 5'",
    "nested script": "bash ./inner.sh 6",
    "select by default": 'K=${{1:-3}}\nshift || true\n{call} k=$K "$@"',
    "quoted array element": "A=('x y' z)\n{call} a=\"${{A[0]}}\" b=${{A[@]: -1}}",
    "while read": 'while read -r k v; do W+=("$k=$v"); done <<< \'a 1\'\n{call} "${{W[@]}}"',
    "extglob": "shopt -s extglob\nX=aaab\n{call} x=${{X##+(a)}}",
    "arithmetic loop": "for ((i=0;i<3;i++)); do S+=$i; done\n{call} s=$S",
    "substring test": "M=Qwen2.5-7B\nif [[ $M == *7B* ]]; then T=2; else T=4; fi\n{call} t=$T",
    "default of default": "{call} a=${{A:-${{B:-c}}}} b=${{B-}}",
    "subshell": "(X=1; {call} x=$X)",
    "string comparison": "[[ a < b ]] && K=1\n{call} k=$K",
    "not": "if ! [ a = b ]; then K=1; fi\n{call} k=$K",
    "elif": "X=2\nif [ $X -eq 1 ]; then K=1; elif [ $X -eq 2 ]; then K=2; fi\n{call} k=$K",
    "lines in words, beside programs in the background": "X=$(printf 'a\\nb')\nsleep 0 & ls . & {call} x=\"$X\" y=$'c\\n\\nd' &\nwait",
    "seq": "S=$(seq -s, 1 3)\n{call} s=[$S]",
}  # fmt: skip
ARGUMENTS = {
    "arguments": ["--model", "a b", "x=1", "y=2"],
    "set": ["b=1"],
    "getopts": ["-m", "q"],
    "select by default": ["9", "z=1"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Work in a folder with a file to read in."""
    (tmp_path / "common.sh").write_text("COMMON=7\n")
    (tmp_path / "inner.sh").write_text(f"{CALL} i=$1\n")
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_text(text: str, *arguments: str) -> Script:
    Path("train.sh").write_text(text + ("" if text.endswith("\\") else "\n"))
    return read_script(Path("train.sh"), list(arguments))


def words_of_bash(folder: Path, *arguments: str) -> list[str]:
    """Let bash run the script that was read as it is, with one program in place of Python, and return its words."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "python").write_text(JUDGE)
    (programs / "python").chmod(0o755)
    judged = folder / "judged"
    subprocess.run(
        ["/bin/bash", "train.sh", *arguments],
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(Path.home()), "JUDGED": str(judged)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    words = judged.read_text().split("\0")[:-1]
    return words[words.index("verl.trainer.main_ppo") + 1 :]


@pytest.mark.prove(after=24)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_words_are_bashs_own(name: str, folder: Path) -> None:
    arguments = ARGUMENTS.get(name, [])
    call = read_text(SCRIPTS[name].format(call=CALL), *arguments).call
    expected = [word for word in words_of_bash(folder, *arguments) if word.strip()]
    assert [*call.words, *(f"{one.key} {one.value}" for one in call.options)] == expected


@pytest.mark.prove
def test_landlocks_walls_give_the_same_words(folder: Path, monkeypatch: Patch) -> None:
    sandbox = LocalSandbox(Walls.LANDLOCK)
    try:
        sandbox.self_test()
    except SandboxMissing as error:
        pytest.skip(f"no Landlock here: {error}")
    monkeypatch.setattr(behind_walls, "_walls", lambda: sandbox)
    for name in ("its own folder", "another file", "redirections", "mapfile", "home", "bash -c"):
        (folder / "judged").unlink(missing_ok=True)
        words = read_text(SCRIPTS[name].format(call=CALL)).call.words
        assert list(words) == words_of_bash(folder), name
    sandbox.close()


@pytest.mark.prove(after=5)
@pytest.mark.parametrize("program", [
    "/usr/bin/python3", "nohup python", "CUDA_VISIBLE_DEVICES=0 python3 -u", "srun --nodes=1 python",
    "ray job submit --address http://h -- python3", "uv run --frozen python3",
    "/opt/conda/envs/verl/bin/python", '"$HOME/venv/bin/python"', "exec python",
    "torchrun --nproc_per_node 8", "env A=1 python", "time python", "bash -lc 'python \"$@\"' x",
    "timeout 3600 python",
])  # fmt: skip
def test_whatever_starts_the_trainer_it_is_found(program: str) -> None:
    script = read_text(f"{program} -m verl.trainer.main_ppo a=1 b='x y'")
    assert script.call.words == ("a=1", "b=x y")


def test_an_asynchronous_trainer_has_generators_of_its_own_and_the_samplers_ratio() -> None:
    Path("train.sh").write_text(
        "python -m verl.experimental.fully_async_policy.fully_async_main trainer.n_gpus_per_node=4 "
        "algorithm.rollout_correction.rollout_is=token rollout.n_gpus_per_node=4 algorithm.adv_estimator=grpo "
        "actor_rollout_ref.rollout.n=4 data.train_files=a.parquet\n"
    )
    found = {one.path: one.value for one in translate(read(["train.sh"])).settings}
    assert (found["generators.gpus"], found["learner.gpus"]) == ([0, 1, 2, 3], [4, 5, 6, 7])
    assert found["learner.objective.type"] == "grpo"


def test_nothing_is_written_and_nobody_is_asked(folder: Path) -> None:
    before = {one.name for one in folder.iterdir()} | {"train.sh"}
    script = read_text(
        f"touch made\necho x > made2\necho x | tee made3\nrm -rf common.sh\nmkdir -p made4\n"
        f'python -c \'open("made5", "w")\'\nexec 3<>/dev/tcp/127.0.0.1/1 || N=closed\ncat /etc/passwd || P=hidden\n{CALL} a=1 p=$P n=$N'
    )
    assert script.call.words == ("a=1", "p=hidden", "n=closed")
    assert {one.name for one in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3\n{call} a=1", ["line 1", "exit"]),
        (
            '[ -z "$MODEL" ] && {{ echo no; exit 1; }}\\n{call} m=$MODEL',
            ["line 1", "MODEL=... millrace import"],
        ),
        ("set -u\n{call} m=$MODEL", ["$MODEL", "unbound"]),
        ('M=${{MODEL:?"say which"}}\n{call} m=$M', ["$MODEL", "say which"]),
        ('if [ "$RANK" = 0 ]; then\n  {call} a=1\nfi', ["$RANK", "line 2"]),
        ("set -e\nfalse\n{call} a=1", ["line 2"]),
        ("while true; do :; done\n{call} a=1", ["1 s"]),
        ("until curl -s http://h && false; do sleep 9; done\n{call} a=1", ["waits", "line 1"]),
        ("echo nothing", ["no call of verl"]),
        ("X=$(nvidia-smi -L | wc -l)\n[ $X -gt 5 ] || {{ {call} a=1; }}", ["depends on", "nvidia-smi -L"]),
        ("echo 'open", ["unexpected EOF"]),
        ("python -m verl.trainer.main_generation a=1", ["millrace evaluate"]),
        ("python -m verl.trainer.main_eval a=1", ["millrace evaluate"]),
        ("python3 -m recipe.sppo.main_sppo a=1", ["main_sppo", "another algorithm"]),
        ("python3 -m verl.experimental.vla.main_ppo a=1", ["another algorithm"]),
        ("{call} a=1\n{call} a=2", ["train.sh:1 and train.sh:2"]),
    ],
)
def test_a_script_without_a_call_says_why(script: str, words: list[str], monkeypatch: Patch) -> None:
    for name in ("MODEL", "RANK"):
        monkeypatch.delenv(name, raising=False)
    wall_s = 1.0 if "while true" in script else 20.0
    monkeypatch.setattr(behind_walls, "LIMITS", Limits(wall_s=wall_s, processes=64))
    with pytest.raises(ConfigError) as caught:
        read_text(script.format(call=CALL))
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.prove(after=4)
@pytest.mark.parametrize(("script", "names"), [
    ("N=$(nvidia-smi -L | wc -l)\n{call} k=$N", ["nvidia-smi -L", "$N"]),
    ("N=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\n{call} k=$((N * 2))", ["$N"]),
    ("D=${{D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}}\n{call} k=$D",
        ["$D"]),
    ("A=2\ncommand -v ray || A=8\n{call} k=$A", ["command -v ray"]),
    ("A=2\ncommand -v ray && A=8\n{call} k=$A", ["command -v ray"]),
    ("N=$(python -c 'import torch; print(torch.cuda.device_count())')\n{call} k=$N", ["torch", "$N"]),
    ("A=1\nif curl -s http://h; then A=2; fi\n{call} k=$A", ["curl"]),
    ("{call} k=$(nproc)", ["nproc"]),
    ("{call} k=$TP", ["$TP", "set nowhere"]),
    ("P=$(which python3)\n{call} k=$P", ["which python3"]),
    ("G=$(git rev-parse HEAD)\n{call} k=$G", ["git rev-parse HEAD"]),
    ("{call} k=$(rocm-smi | wc -l)", ["rocm-smi"]),
])  # fmt: skip
def test_what_the_machine_decides_is_unknown_and_named(script: str, names: list[str]) -> None:
    (word,) = read_text(script.format(call=CALL)).call.words
    assert word.startswith("k=")
    assert [part for part in (UNKNOWN, *names) if part not in word] == []


@pytest.mark.parametrize("test", ["-f", "-e", "-d"])
def test_a_place_that_the_script_names_is_there_if_it_is_on_the_machine(
    test: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "rows.parquet"
    elsewhere.mkdir() if test == "-d" else elsewhere.write_bytes(b"PAR1")
    is_seen = behind_walls._walls().walls is Walls.BUBBLEWRAP
    for path, there in ((elsewhere, is_seen), (Path("/nowhere/rows.parquet"), False)):
        script = read_text(f"D={path}\nif [ {test} $D ]; then K=1; else K=2; fi\n{CALL} k=$K")
        assert script.call.words == (f"k={1 if there else 2}",)


def test_a_device_that_is_said_is_no_question(monkeypatch: Patch) -> None:
    monkeypatch.setenv("DEVICE", "gpu")
    script = read_text(f"D=${{DEVICE:-$(python3 -c 'import x' && echo npu || echo gpu)}}\n{CALL} k=$D")
    assert script.call.words == ("k=gpu",)


def test_a_folder_that_the_script_goes_to_is_the_calls() -> None:
    call = read_text(f"cd /nowhere/a || exit 1\ncd ../b\n{CALL} k=$(pwd) l=$PWD").call
    assert (call.words, call.folder) == (("k=/nowhere/b", "l=/nowhere/b"), "/nowhere/b")


def test_a_call_has_its_words_with_their_lines_what_was_exported_and_what_is_served() -> None:
    script = read_text(
        "export A=1\nKEY=value\nvllm serve some/judge --port 8123 &\n"
        "CUDA_VISIBLE_DEVICES=0 nohup python3 -m verl.trainer.main_ppo \\\n  a.b=$KEY \\\n  +c=$1 $2 2>&1 | tee log",
        *("given", "d=4"),
    )
    assert script.call.words == ("a.b=value", "+c=given", "d=4")
    assert script.call.places == ("train.sh:5", "train.sh:6", "train.sh:4")
    exported = {name: one.value for name, one in script.exported.items()}
    assert exported == {"A": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert {port: one.value for port, one in script.served.items()} == {8123: "some/judge"}


@pytest.mark.parametrize("script", [
    "X=aaaa\n" + "X=$X$X\n" * 60, "f() { f; f; }\nf\n", "X=aaaa\n" + "X=${X//a/aaaa}\n" * 60,
    "head -c 999999999 /dev/zero | tr '\\0' x >&2\n", "#" * 300_000 + "\n",
])  # fmt: skip
def test_a_script_that_grows_without_end_is_ended(script: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(behind_walls, "LIMITS", Limits(wall_s=1.0, processes=64))
    with pytest.raises(ConfigError, match=r"train\.sh"):
        read_text(f"{script}{CALL} a=1")


def test_without_walls_the_words_are_asked_for(monkeypatch: Patch) -> None:
    def none() -> LocalSandbox:
        raise SandboxMissing("no sandbox: none here")

    monkeypatch.setattr(behind_walls, "_walls", none)
    with pytest.raises(ConfigError, match=r"no walls here.*the words of the call instead"):
        read_text(f"{CALL} a=1")


@pytest.mark.parametrize(
    ("script", "without"),
    [
        ("a > b", "a > /dev/null"),
        ("a >> b 2>&1", "a >> /dev/null 2>&1"),
        ("a &> 'b c'", "a &> /dev/null"),
        ("a 2> $(b).log", "a 2> /dev/null"),
        ("echo 'a > b'", "echo 'a > b'"),
        ('echo "a > b"', 'echo "a > b"'),
        ("# a > b", "# a > b"),
        ("[[ a > b ]]", "[[ a > b ]]"),
        ("(( a > b ))", "(( a > b ))"),
        ("x=$(( a > b ))", "x=$(( a > b ))"),
        ("exec > >(tee x) 2>&1", "exec > /dev/null 2>&1"),
        ("a < <(b c)", 'a <<< "$(b c)"'),
        ("cat <<EOF\na > b\nEOF\nc > d", "cat <<EOF\na > b\nEOF\nc > /dev/null"),
        ("cat > x <<EOF\na > b\nEOF", "cat > /dev/null <<EOF\na > b\nEOF"),
        ("a > /dev/null", "a > /dev/null"),
        ("a <<< b", "a <<< b"),
        ("a >&2", "a >&2"),
        ("echo it\\'s > b", "echo it\\'s > /dev/null"),
    ],
)
def test_what_is_written_goes_nowhere(script: str, without: str) -> None:
    assert without_writes(script) == without
