"""A second run embeds nothing and loads no model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from eval.cli import main
code = main(["eval", "collection=tiny", "tracking=off", "--json"])
print(json.dumps(sorted({"torch", "sentence_transformers", "transformers"} & set(sys.modules))), file=sys.stderr)
sys.exit(code)
"""


def run(folder: Path, hash_seed: str) -> tuple[dict, list[str]]:
    """One evaluation with MiniLM in a process of its own: its document, and the model libraries it loaded."""
    environment = {"PYTHONHASHSEED": hash_seed, "HOME": str(folder), "PATH": ""}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])


@pytest.mark.slow
def test_the_second_run_loads_no_model_and_prints_the_same(tmp_path: Path) -> None:
    first, loaded = run(tmp_path, "1")
    assert "torch" in loaded
    second, loaded = run(tmp_path, "2")
    assert loaded == []
    assert second["manifest"]["cache"]["misses"] == 0
    assert second["timings_ms"]["embed"] == first["timings_ms"]["embed"]  # recorded when the model ran
    for document in (first, second):
        del document["timings_ms"], document["cost"]
        for name in ("created", "machine", "cache"):
            del document["manifest"][name]
    assert json.dumps(first) == json.dumps(second)
