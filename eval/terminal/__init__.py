"""What a person sees in the terminal. Text from messages is escaped before it is shown."""

from eval.terminal.collection import collection_parts
from eval.terminal.ingestion import ingestion_parts
from eval.terminal.jobs import comparison_parts, job_parts
from eval.terminal.screen import console
from eval.terminal.search import search_parts

__all__ = ["collection_parts", "comparison_parts", "console", "ingestion_parts", "job_parts", "search_parts"]
