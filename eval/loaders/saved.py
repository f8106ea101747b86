"""A collection that this project wrote to a folder."""

from pathlib import Path

from eval.collection import read_collection
from eval.schema import TestCollection


def load_saved(path: str) -> TestCollection:
    """The collection in a folder of messages.parquet, queries.parquet, qrels.parquet and manifest.yaml.

    Raises:
        CollectionError: With every fault of the folder.
    """
    return read_collection(Path(path))
