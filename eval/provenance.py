"""Where a result comes from: code, versions, settings, data, machine."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("recall-eval", "numpy", "polars", "hnswlib", "torch", "sentence-transformers", "ir-measures", "hydra-core")


def manifest(
    settings: dict[str, Any], overrides: Sequence[str], *, tokenizer: str, cache: dict[str, int]
) -> dict[str, Any]:
    """Everything needed to make the same numbers again, plus when and on what they were made.

    Args:
        settings: The composed settings.
        overrides: What was typed.
        tokenizer: What counted the tokens.
        cache: Embedding look-ups that hit and missed.
    """
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "cache": cache,
        "git": git_state(),
        "versions": {name: _version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "settings": settings,
        "overrides": list(overrides),
        "tokenizer": tokenizer,
    }


def git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the checkout this code runs from; None for an installed wheel."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None
    sha = _git(folder, "rev-parse", "HEAD")
    return {"sha": sha, "dirty": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))} if sha else None


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    return {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
