"""The import rules hold, and each would be seen to break."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINTER = Path(sys.executable).parent / "lint-imports"

# contract, file to break, the line that breaks it
VIOLATIONS = [
    ("The engine never imports the harness", "recall/windows.py", "import eval.schema"),
    ("The engine's logic knows no concrete class", "recall/engine.py", "import recall.indexes.exact"),
    ("Embedders do not import each other", "recall/embedders/hashing.py", "import recall.embedders.cached"),
    ("Indexes do not import each other", "recall/indexes/hnsw.py", "import recall.indexes.exact"),
    ("Retrievers do not import each other", "recall/retrievers/planted.py", "import recall.retrievers.dense"),
    ("Stores do not import each other", "recall/stores/planted.py", "import recall.stores.memory"),
    ("Loaders do not import each other", "eval/loaders/saved.py", "import eval.loaders.locomo"),
    ("Metrics, choice and the one pass know neither", "eval/onepass.py", "import recall.engine"),
    ("Hydra only in config", "eval/runner.py", "import hydra"),
    ("MLflow only in tracking", "eval/results.py", "import mlflow"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The two packages and their contracts, free to be broken."""
    for package in ("recall", "eval"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> str:
    """What import-linter prints for the packages in a folder."""
    command = [str(LINTER), "--no-cache"]
    environment = {"PYTHONPATH": str(folder), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_every_import_rule_holds(copy: Path) -> None:
    printed = lint(copy)
    assert "0 broken" in printed
    assert f"{len(VIOLATIONS)} kept" in printed


@pytest.mark.slow
@pytest.mark.parametrize(("contract", "file", "line"), VIOLATIONS, ids=[row[0] for row in VIOLATIONS])
def test_a_planted_violation_breaks_its_rule(copy: Path, contract: str, file: str, line: str) -> None:
    path = copy / file
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{line}\n{text}")
    broken = [row for row in lint(copy).splitlines() if " BROKEN" in row]
    assert any(row.startswith(contract) for row in broken), broken


@pytest.mark.parametrize("folder", ["datasets", "configs", "reports"])
def test_folders_of_data_hold_no_python(folder: str) -> None:
    assert not list((ROOT / folder).rglob("*.py"))


def test_tests_are_no_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_both_packages_say_they_are_typed() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in ("recall", "eval"))


def test_the_engine_exports_what_it_says_sorted() -> None:
    import recall

    assert list(recall.__all__) == sorted(recall.__all__)
    assert len(recall.__all__) <= 12
    assert all(hasattr(recall, name) for name in recall.__all__)


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["eval", "--help"],
        ["search", "--help"],
        ["collection", "--help"],
        ["collection", "generate", "--help"],
    ],
    ids=" ".join,
)
def test_help_imports_no_heavy_library(command: list[str]) -> None:
    heavy = ("torch", "sentence_transformers", "mlflow", "scipy", "hnswlib", "polars", "ir_measures")
    program = (
        "import sys; from eval.cli import main; code = main(sys.argv[1:]); "
        f"loaded = [name for name in {heavy!r} if name in sys.modules]; sys.exit(code or ', '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "recall" in done.stdout
