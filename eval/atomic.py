"""Writes that are there whole or not at all: a temporary sibling, fsync, rename.

An interrupted write leaves what was there before. The temporary name is hidden and sits in the same folder,
because a rename is atomic only within one file system.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from eval.errors import OutputError


def write_bytes(path: Path, content: bytes) -> None:
    """Put `content` at `path`, in place of what was there; missing parent folders are made.

    Raises:
        OutputError: The file cannot be written; what was there before is untouched.
    """
    with atomic_file(path) as stream:
        stream.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes appear at `path` when the block ends without an error.

    Raises:
        OutputError: The file cannot be written; what was there before is untouched.
    """
    with output_errors(path):
        if path.is_dir():
            raise OutputError(f"cannot write {_shown(path)}: it is a folder, expected the path of a file")
        _make_folder(path.parent)
        temporary = _sibling(path)
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `folder` when the block ends without an error.

    Raises:
        OutputError: `folder` exists and holds something, or cannot be written; nothing is changed.
    """
    with output_errors(folder):
        # A rename needs the real name: "." and a symbolic link have none that can be replaced.
        target = folder.resolve()
        _refuse_occupied(folder, target)
        _make_folder(target.parent)
        temporary = _sibling(target)
        try:
            temporary.mkdir()
            yield temporary
            for path in sorted(temporary.rglob("*")):
                _sync(path)
            _sync(temporary)
            temporary.replace(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _sync(target.parent)


def _refuse_occupied(folder: Path, target: Path) -> None:
    if target.is_dir() and any(target.iterdir()):
        raise OutputError(
            f"cannot write {_shown(folder)}: the folder exists and is not empty; choose another one or remove it"
        )
    if target.exists() and not target.is_dir():
        raise OutputError(f"cannot write {_shown(folder)}: it is a file, expected the path of a folder")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def _sibling(path: Path) -> Path:
    # Not tempfile: its files are private to the user, and the result would stay so against the umask.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems cannot sync a folder; the rename holds there all the same.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turns an operating system's error in the block into one sentence about writing `path`.

    Raises:
        OutputError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write {_shown(path)}: {reason}; choose a place that exists, has room and can be written"
        ) from error


def _shown(path: Path) -> str:
    return repr(str(path))
