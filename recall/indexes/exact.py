"""The exact index: every search scans a contiguous slice. The oracle of every other index."""

from collections.abc import Sequence
from datetime import datetime

from recall.protocols import IndexEntry
from recall.row_table import RowTable
from recall.schema import Ranking, SearchScope, Vector, Vectors


class ExactIndex:
    """Scores every row in scope; a thread is a slice of its resource's rows."""

    def __init__(self) -> None:
        """Start empty; the first rows decide the dimension."""
        self._table = RowTable()

    def add(self, entries: Sequence[IndexEntry], vectors: Vectors) -> None:
        """Add rows; a message_id that is there already is replaced.

        Raises:
            VectorError: Wrong shape or dimension, NaN, infinity, or not of unit length; nothing is added.
        """
        self._table.add(entries, vectors)

    def remove(self, message_ids: Sequence[str]) -> None:
        """Forget these messages; unknown ids are ignored."""
        self._table.remove(message_ids)

    def search(
        self, query: Vector, scope: SearchScope, depth: int, *, before: datetime | None = None, exact: bool = False
    ) -> Ranking:
        """The best `depth` messages of the scope, ties by (created_at, position, id); `exact` changes nothing.

        Raises:
            VectorError: The query does not fit the rows.
            OptionsError: A depth under 1.
        """
        return self._table.scan(self._table.checked_query(query, depth), scope, depth, before)

    @property
    def nbytes(self) -> int:
        """Memory of the vectors."""
        return self._table.nbytes

    def __len__(self) -> int:
        return len(self._table)
