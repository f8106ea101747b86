"""The README's commands and code run, and name everything there is."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
CONSOLE = [line.partition("#")[0].strip() for kind, text in BLOCKS if kind == "console" for line in text.splitlines()]
RECALL_LINES = [line for line in CONSOLE if line.startswith("recall ")]
MAKE_LINES = [line for line in CONSOLE if line.startswith("make ")]
FAST = ["experiment=smoke"]


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert MAKE_LINES == ["make sweep", "make test"]
    for target in [*re.findall(r"`make (\w+)`", README), "sweep", "test"]:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_command_and_config_group_is_named() -> None:
    from eval.cli import HYDRA_COMMANDS

    for command in (
        *HYDRA_COMMANDS,
        "ingest",
        "search",
        *(f"collection {a}" for a in ("generate", "import", "validate", "describe")),
    ):
        assert f"recall {command}" in README
    groups = {path.name for path in (ROOT / "configs").iterdir() if path.is_dir()} - {"hydra"}
    assert all(f"`{group}`" in README for group in groups)


def _is_measuring(line: str) -> bool:
    return line.split()[1] in ("eval", "sweep", "search") and "--store" not in line


@pytest.mark.slow
def test_the_commands_on_a_store_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval.cli import main

    monkeypatch.chdir(tmp_path)
    said = '{"role": "user", "content": "The ferry leaves at noon.", "thread_id": "t", "resource_id": "mina"}'
    (tmp_path / "messages.jsonl").write_text(said)
    lines = [line for line in RECALL_LINES if "--store" in line]
    assert [line.split()[1] for line in lines] == ["ingest", "search"]
    for line in lines:
        assert main([*shlex.split(line)[1:], "--set", "embedder=hashing"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in RECALL_LINES if _is_measuring(line)])
def test_a_command_line_runs_as_written_but_faster(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overrides of the README on a tiny collection without a model."""
    from eval.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    words = shlex.split(line)[1:]
    if "retriever=saved" in words:
        assert main(["sweep", *FAST, "runs_dir=made"]) == 0
        words[-1] = f"retriever.path={next(tmp_path.glob('made/*/run.parquet'))}"
    if "collection=saved" in words:
        words[-1] = "collection.path=made"
        assert main(["collection", "generate", "collection=tiny", "--out", "made"]) == 0
        fast = ["embedder=hashing", "tracking=off"]
    else:
        fast = ["--set", *FAST] if words[0] == "search" else FAST
    assert main([*words, *(word for word in fast if word not in words)]) == 0


@pytest.mark.slow
def test_collection_commands_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval.cli import main

    monkeypatch.chdir(tmp_path)
    lines = [shlex.split(line)[1:] for line in RECALL_LINES if line.startswith("recall collection")]
    generated = next(words for words in lines if "generate" in words)
    assert main(generated) == 0
    (folder,) = (tmp_path / "datasets").iterdir()
    for action in ("validate", "describe"):
        (words,) = (words for words in lines if action in words)
        assert main([*words[:-1], str(folder)]) == 0


@pytest.mark.slow
def test_the_python_examples_run_one_after_the_other(tmp_path: Path) -> None:
    """The second opens the file the first has made, and finds what was said in two other threads."""
    printed = []
    for code in (text for kind, text in BLOCKS if kind == "python"):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout)
    pipeline, loop, extended = printed
    assert "I saw 2 messages" in pipeline
    assert "My ferry to Jeju leaves on Friday at noon." in pipeline
    assert "a model would answer 2 messages here" not in loop, "the answer is stored, not shown"
    assert "My ferry to Jeju leaves on Friday at noon." in loop
    assert "Conversation A" in loop and "Conversation B" in loop
    assert extended == "Noted.\n"


def test_every_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert links
    assert all((ROOT / link).exists() for link in links)
