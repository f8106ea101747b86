"""Named indexes: the name an embedder's index has, and what may be kept under one name."""

import re

from recall.errors import IdentityError, OptionsError
from recall.protocols import IndexInfo, IndexKey

PREFIX = "mastra_memory_"
"""The reference's, so that one name stands for one index in both."""
MAX_NAME = 63
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}")
_OUTSIDE_NAME = re.compile("[^A-Za-z0-9_]")


def index_name_of(model_id: str) -> str:
    """The name of an embedder's index: its model's name with every other UTF-16 unit as "_", at most 63 characters."""
    # A character beyond the BMP is two units in the reference, and becomes two underscores.
    named = _OUTSIDE_NAME.sub(lambda match: "__" if ord(match[0]) > 0xFFFF else "_", model_id)
    return (PREFIX + (named or "default"))[:MAX_NAME]


def check_index(held: IndexInfo | None, wanted: IndexKey, dim: int | None = None) -> None:
    """Let vectors of `wanted` be kept beside, or compared with, what is held under the name.

    Args:
        held: The index of that name; None where there is none.
        wanted: The index as its user knows it.
        dim: Of the vectors to be kept; None where there are none.

    Raises:
        OptionsError: The name cannot be used.
        IdentityError: The index is of another space, or of another dimension.
    """
    if not _NAME.fullmatch(wanted.name):
        raise OptionsError(
            "index_name", wanted.name, f"a letter or underscore, then letters, digits, underscores; at most {MAX_NAME}"
        )
    if held is None:
        return
    if held.key.space != wanted.space:
        given = f"{_named(wanted)} of dim {dim}" if dim else _named(wanted)
        raise IdentityError(
            f"index {wanted.name!r} was built with {_named(held.key)} of dim {held.dim}, got {given}; "
            "use that embedder, another index_name, "
            "or embed every message again (RecallEngine.reindex, recall ingest --reindex)"
        )
    if dim is not None and dim != held.dim:
        raise IdentityError(
            f"index {wanted.name!r} of {_named(wanted)} holds vectors of dim {held.dim}, got dim {dim}; "
            "the embedder changed without a new identity, "
            "so embed every message again (RecallEngine.reindex, recall ingest --reindex)"
        )


def _named(key: IndexKey) -> str:
    return f"embedder {key.space.model_id or 'without a name'!r} ({key.space.identity})"
