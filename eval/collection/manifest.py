"""The manifest of a test collection: what it must say, and its YAML file."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from eval.errors import CollectionError
from eval.wording import quoted

FORMAT_VERSION = 1
MANIFEST_KEYS = ("format_version", "name", "version", "licence", "language", "source")
"""What a manifest begins with; notes, counts, sha256 and further keys follow."""
_PLAIN = (str, bool, int, float, type(None))


class _TreeLoader(yaml.SafeLoader):
    """Refuses aliases: with them a short file stands for an endless one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, unless it is an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias (*name) is not allowed in a manifest")
        return super().compose_node(parent, index)


class _TreeDumper(yaml.SafeDumper):
    """Writes what `_TreeLoader` reads back as it was."""

    def ignore_aliases(self, data: object) -> bool:
        """True: a value that occurs twice is written twice."""
        return True

    def represent_scalar(self, tag: str, value: str, style: str | None = None) -> yaml.ScalarNode:
        """The scalar, with escapes where a line break such as U+0085 would otherwise come back as a space."""
        return super().represent_scalar(tag, value, style if value.isprintable() else '"')


class ManifestFile(NamedTuple):
    """A manifest as read from its file, and the SHA-256 of the files beside it, by file name."""

    manifest: dict[str, Any]
    checksums: dict[str, str]


def manifest_faults(manifest: Mapping[str, Any]) -> list[str]:
    """What is missing or wrong in a manifest, counts and sha256 aside, one sentence each."""
    found = []
    for key in MANIFEST_KEYS[1:]:
        value = manifest.get(key)
        if not isinstance(value, str) or not value.strip():
            found.append(f"manifest: {key} is {_shown(value)}, expected a text that is not empty")
    if manifest.get("format_version") != FORMAT_VERSION:
        version = _shown(manifest.get("format_version"))
        found.append(f"manifest: format_version is {version}, expected {FORMAT_VERSION}, the one this release reads")
    notes = manifest.get("notes")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        found.append(f"manifest: notes is {_shown(notes)}, expected a list of texts")
    return found + [f"manifest: {fault}" for fault in _plain_faults(dict(manifest), "")]


def manifest_bytes(manifest: Mapping[str, Any], checksums: Mapping[str, str]) -> bytes:
    """The manifest and the checksums of its files as UTF-8 YAML, keys in the order given."""
    content = {**manifest, "files": dict(checksums)}
    return yaml.dump(content, Dumper=_TreeDumper, allow_unicode=True, sort_keys=False, width=120).encode()


def read_manifest(path: Path) -> ManifestFile:
    """The manifest of a file, not yet checked, and the checksums it keeps.

    Raises:
        CollectionError: There is no such file, or it is not a YAML mapping.
    """
    try:
        content = yaml.load(path.read_bytes(), Loader=_TreeLoader)
    except OSError as error:
        raise CollectionError(str(path), [f"{path.name} cannot be read: {error.strerror}"]) from error
    # What only looks like a date or a number, and nesting beyond the stack, escape YAML's own error.
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        raise CollectionError(str(path), [f"{path.name} is not YAML: {_first_line(error)}"]) from error
    if not isinstance(content, dict):
        raise CollectionError(str(path), [f"{path.name} holds {_shown(content)}, expected keys with values"])
    checksums = content.pop("files", None)
    return ManifestFile(content, dict(checksums) if isinstance(checksums, dict) else {})


def _plain_faults(value: object, path: str) -> Iterator[str]:
    """Values that YAML and JSON would not give back as they are."""
    if isinstance(value, dict):
        for key, part in value.items():
            place = f"{path}.{key}" if path else str(key)
            if not isinstance(key, str):
                yield f"the key {_shown(key)} is not a text; quote it"
            yield from _plain_faults(part, place)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _plain_faults(part, f"{path}[{number}]")
    elif type(value) not in _PLAIN or (isinstance(value, float) and not math.isfinite(value)):
        yield f"{quoted(path)} is {_shown(value)}, expected text, finite numbers, booleans, lists or mappings of them"
    elif isinstance(value, str) and not _is_unicode(value):
        yield f"{quoted(path)} holds half of a surrogate pair, which UTF-8 cannot store; replace it"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return quoted(value) if isinstance(value, str) else f"{quoted(str(value))} ({type(value).__name__})"


def _first_line(error: Exception) -> str:
    return quoted(" ".join(str(error).split())) if str(error) else type(error).__name__
