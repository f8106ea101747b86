"""Test collections: read, write, validate, describe."""

from eval.collection.description import describe
from eval.collection.files import build_collection, collection_sha256, read_collection, write_collection
from eval.collection.validation import faults

__all__ = ["build_collection", "collection_sha256", "describe", "faults", "read_collection", "write_collection"]
