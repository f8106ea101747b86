"""A wheel built from the repository and installed elsewhere works from an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RECALL", "MLFLOW"))
    }
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `recall` script of an environment that has our wheel, and this environment's dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("recall", "eval", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source, folder=folder)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # A plain path, so that the editable install of this checkout is not seen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    added = run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, folder=folder)
    assert added.returncode == 0, added.stderr
    return folder / "venv" / "bin" / "recall"


@pytest.mark.slow
def test_the_wheel_evaluates_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "eval", "collection=tiny", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["manifest"]["settings"]["embedder"]["model"] == "minilm"
    assert document["manifest"]["git"] is None
    assert {path.name for path in tmp_path.iterdir()} == {".recall", "runs"}


@pytest.mark.slow
def test_the_wheel_holds_code_and_configs_only(installed: Path) -> None:
    packages = next(installed.parents[1].glob("lib/python*/site-packages"))
    ours = {path.name for path in packages.iterdir()} - {"dependencies.pth"}
    assert {"recall", "eval"} <= ours
    assert not ours & {"tests", "configs", "datasets", "reports", "docs"}
    assert (packages / "eval" / "configs" / "config.yaml").is_file()
