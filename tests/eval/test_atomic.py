import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.atomic import atomic_file, atomic_folder, write_bytes
from eval.errors import OutputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@settings(max_examples=30, deadline=None)
@given(content=st.binary(max_size=200))
def test_a_written_file_holds_exactly_the_bytes(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "결과 🎉.json"
    write_bytes(path, content)
    assert path.read_bytes() == content
    assert names(path.parent) == [path.name]


def test_missing_parent_folders_are_made(tmp_path):
    write_bytes(tmp_path / "a" / "b" / "c.txt", b"x")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"x"


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "f"
    write_bytes(path, b"old")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_file(path) as stream:
        stream.write(b"half of the n")
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_the_file_is_not_there_before_the_block_ends(tmp_path):
    with atomic_file(tmp_path / "f") as stream:
        stream.write(b"x")
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f").exists()


def record_syncs_and_renames(monkeypatch):
    events = []
    sync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), sync(descriptor)))
    monkeypatch.setattr(Path, "replace", lambda source, target: (events.append("rename"), rename(source, target)))
    return events


def test_the_bytes_are_on_disk_before_the_rename_and_the_name_after_it(tmp_path, monkeypatch):
    events = record_syncs_and_renames(monkeypatch)
    write_bytes(tmp_path / "f", b"x")
    assert events == ["sync", "rename", "sync"]


def test_every_file_of_a_folder_is_on_disk_before_the_rename(tmp_path, monkeypatch):
    events = record_syncs_and_renames(monkeypatch)
    with atomic_folder(tmp_path / "d") as unfinished:
        (unfinished / "one").write_bytes(b"1")
        (unfinished / "two").write_bytes(b"2")
    # Two files and their folder, then the rename, then the parent.
    assert events == ["sync", "sync", "sync", "rename", "sync"]


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    write_bytes(tmp_path / "f", b"x")
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_appears_with_all_its_files(tmp_path):
    with atomic_folder(tmp_path / "a" / "d") as unfinished:
        (unfinished / "대화.txt").write_text("안녕 😀")
        assert not (tmp_path / "a" / "d").exists()
    assert (tmp_path / "a" / "d" / "대화.txt").read_text() == "안녕 😀"
    assert names(tmp_path / "a") == ["d"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_folder_leaves_nothing(tmp_path, error):
    with pytest.raises(error), atomic_folder(tmp_path / "d") as unfinished:
        (unfinished / "one").write_bytes(b"1")
        raise error
    assert names(tmp_path) == []


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "d").mkdir()
    with atomic_folder(tmp_path / "d") as unfinished:
        (unfinished / "one").write_bytes(b"1")
    assert names(tmp_path / "d") == ["one"]


def test_a_folder_that_holds_something_is_refused_and_untouched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="not empty"), atomic_folder(tmp_path):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["thesis.txt"]


def test_a_symbolic_link_to_an_empty_folder_is_kept(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "link") as unfinished:
        (unfinished / "one").write_bytes(b"1")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["one"]


def write_folder(path):
    with atomic_folder(path) as unfinished:
        (unfinished / "one").write_bytes(b"1")


def write_file(path):
    write_bytes(path, b"x")


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_a_path_under_a_file_is_one_clear_error(tmp_path, write):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write '.*/file/below': Not a directory; choose"):
        write(tmp_path / "file" / "below")


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_a_name_that_is_too_long_is_one_clear_error(tmp_path, write):
    with pytest.raises(OutputError, match="File name too long"):
        write(tmp_path / ("x" * 300))


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(30, "Read-only file system")])
def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path, monkeypatch, write, error):
    def refuse(self, target):
        raise error

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match=rf"cannot write '.*/new': {error.strerror}"):
        write(tmp_path / "new")
    assert names(tmp_path) == []


def test_a_folder_where_a_file_should_go_is_refused(tmp_path):
    with pytest.raises(OutputError, match="it is a folder"):
        write_bytes(tmp_path, b"x")


def test_a_file_where_a_folder_should_go_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"kept")
    with pytest.raises(OutputError, match="it is a file"):
        write_folder(tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"kept"
