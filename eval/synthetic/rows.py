"""One resource's messages, queries and judgements as rows of the tables, under opaque ids."""

from typing import Any

from eval.synthetic.conversation import Said
from eval.synthetic.ids import opaque_id
from eval.synthetic.questions import Question

TEST_EVERY = 3
"""Every third resource belongs to the test split."""


class Rows:
    """Makes rows; the ids of one resource fit together."""

    def __init__(self, seed: int, resource: int) -> None:
        """Remember the seed and which resource (0-based) the rows belong to."""
        self._seed = seed
        self._resource = resource
        self._resource_id = self._id("resource")
        self._split = "test" if resource % TEST_EVERY == TEST_EVERY - 1 else "dev"

    def message(self, said: Said) -> dict[str, Any]:
        """A row of MESSAGES."""
        return {
            "message_id": self._message_id(said),
            "resource_id": self._resource_id,
            "thread_id": self._id("thread", said.thread),
            "position": said.position,
            "role": said.role,
            "name": None,
            "text": said.text,
            "created_at": said.created_at,
            "parts": None,
        }

    def query(self, index: int, question: Question) -> dict[str, Any]:
        """A row of QUERIES; `index` is the query's number in its resource."""
        thread = question.spot.thread
        return {
            "query_id": self._id("query", index),
            "resource_id": self._resource_id,
            "thread_id": None if thread is None else self._id("thread", thread),
            "asked_at": question.spot.asked_at,
            "text": question.text,
            "type": question.type,
            "answerable": question.type != "unanswerable",
            "cluster_id": self._resource_id,
            "split": self._split,
        }

    def qrels(self, index: int, question: Question) -> list[dict[str, Any]]:
        """The rows of QRELS of that query."""
        query_id = self._id("query", index)
        return [
            {"query_id": query_id, "message_id": self._message_id(said), "relevance": grade}
            for said, grade in question.relevance
        ]

    def _message_id(self, said: Said) -> str:
        return self._id("message", said.thread, said.position)

    def _id(self, kind: str, *path: int) -> str:
        return opaque_id(self._seed, self._resource, kind, *path)
