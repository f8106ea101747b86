"""The approximate index: one hnswlib graph per resource over its distinct vectors, exact slices for everything else."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.errors import MissingDependencyError, OptionsError
from recall.protocols import IndexEntry
from recall.row_table import RowTable
from recall.rows import Integers, RowBlock, RowNumbers
from recall.schema import Ranking, SearchScope, Vector, Vectors

Mask = npt.NDArray[np.bool_]

TIE_SLACK = 8
"""Neighbours fetched beyond the depth, so that scores equal after rounding are ordered by the tie rule."""
WIDENING = 4
"""A search widens to this many times what was wanted, or 1 / this of the graph; beyond, an exact scan is cheaper."""
LEAST_ALIVE = 0.8
"""Share of a graph's nodes that have rows; with fewer, searches end among the dead and the graph is built anew."""


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """How graphs are built and searched; see `HnswIndex`."""

    m: int
    ef_construction: int
    ef_search: int
    seed: int
    threads: int


class HnswIndex:
    """Answers a resource scope from that resource's graph and a thread scope from an exact slice.

    Whatever the graph proposes is scored again by the kernel and put in the total order, so scores never depend on
    the index, only which messages are found. A graph is built at the first search that needs it and follows later
    changes; with one thread and a seed it is the same after the same calls.
    """

    def __init__(
        self,
        m: int = 16,
        *,
        ef_construction: int = 200,
        ef_search: int = 100,
        switch_rows: int = 0,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        """Start empty; the first rows decide the dimension.

        Args:
            m: Links per node, 2 to 256.
            ef_construction: Candidates kept while a node is linked.
            ef_search: Candidates kept while searching; the depth where that is larger.
            switch_rows: Resources with more rows than this are searched by a graph.
            seed: Of the graph's random levels.
            threads: That build a graph; more than one is faster and not deterministic.

        Raises:
            OptionsError: A setting outside what is allowed.
        """
        for name, value, low, high in (
            ("m", m, 2, 256),
            ("ef_construction", ef_construction, 1, 100_000),
            ("ef_search", ef_search, 1, 100_000),
            ("switch_rows", switch_rows, 0, 2**31 - 1),
            ("seed", seed, 0, 2**31 - 1),
            ("threads", threads, 1, 256),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise OptionsError(name, value, f"an integer from {low} to {high}")
        self._settings = GraphSettings(m, ef_construction, ef_search, seed, threads)
        self._switch_rows = switch_rows
        self._table = RowTable()
        self._graphs: dict[str, _Graph] = {}
        # hnswlib crashes when a graph grows while it is searched.
        self._lock = threading.Lock()

    def add(self, entries: Sequence[IndexEntry], vectors: Vectors) -> None:
        """Add rows; a message_id that is there already is replaced.

        Raises:
            VectorError: Wrong shape or dimension, NaN, infinity, or not of unit length; nothing is added.
        """
        self._table.add(entries, vectors)

    def remove(self, message_ids: Sequence[str]) -> None:
        """Forget these messages; unknown ids are ignored."""
        self._table.remove(message_ids)
        with self._lock:
            self._graphs = {r: graph for r, graph in self._graphs.items() if self._table.holds(r)}

    def search(
        self, query: Vector, scope: SearchScope, depth: int, *, before: datetime | None = None, exact: bool = False
    ) -> Ranking:
        """The best `depth` messages of the scope, ties by (created_at, position, id).

        A graph that cannot answer in full (too few visible rows, or nodes it cannot reach) leaves it to an exact scan,
        and `searched_by` says so.

        Raises:
            VectorError: The query does not fit the rows.
            OptionsError: A depth under 1.
            MissingDependencyError: A graph is needed and hnswlib is not installed.
        """
        unit = self._table.checked_query(query, depth)
        if not exact and scope.thread_id is None:
            found = self._search_graph(unit, scope, depth, before)
            if found is not None:
                return found
        return self._table.scan(unit, scope, depth, before)

    @property
    def nbytes(self) -> int:
        """Memory of the vectors, and of the graphs built so far, which hold them once more."""
        with self._lock:
            return self._table.nbytes + sum(graph.nbytes for graph in self._graphs.values())

    def __len__(self) -> int:
        return len(self._table)

    def _search_graph(self, query: Vector, scope: SearchScope, depth: int, before: datetime | None) -> Ranking | None:
        resource_id = scope.resource_id
        block = self._table.block(resource_id)
        if block is None or len(block) <= self._switch_rows:
            return None
        is_visible = block.visible(scope.thread_ids, before)
        with self._lock:
            # Taken out while it changes, so that an interruption leaves no half-built graph.
            graph = self._graphs.pop(resource_id, None)
            if graph is None or not graph.follow(block):
                graph = _Graph(self._settings, block)
            self._graphs[resource_id] = graph
            rows = graph.rows_near(query, depth, is_visible)
        return None if rows is None else replace(block.rank(query, rows, depth), searched_by="graph")


class _Graph:
    """An hnswlib graph with one node per distinct vector, and the rows each node stands for.

    Duplicated vectors would cut a graph into islands. Nodes whose rows are gone stay, as stepping stones without rows.
    """

    def __init__(self, settings: GraphSettings, block: RowBlock) -> None:
        self._settings = settings
        self._index = _empty_index(block.vectors.shape[1])
        self._capacity = 0
        self._node_of: dict[bytes, int] = {}
        self._block: RowBlock | None = None
        self.follow(block)

    def follow(self, block: RowBlock) -> bool:
        """Take over a newer block; False where too many nodes would have no row, and a new graph is due."""
        if block is self._block:
            return True
        nodes, first_rows = self._enrol(block)
        if np.unique(nodes).size < LEAST_ALIVE * len(self._node_of):
            return False
        self._insert(block.vectors[first_rows])
        self._block = block
        self._rows_by_node = np.argsort(nodes, kind="stable")
        self._starts = np.searchsorted(nodes[self._rows_by_node], np.arange(len(self._node_of) + 1))
        return True

    def rows_near(self, query: Vector, depth: int, is_visible: Mask | None) -> RowNumbers | None:
        """Visible rows of the nearest nodes, `depth` of them or all there are; None where a scan does better."""
        nodes = len(self._node_of)
        wanted = min(depth + TIE_SLACK, nodes)
        limit = min(nodes, max(WIDENING * wanted, nodes // WIDENING))
        if is_visible is not None and np.count_nonzero(is_visible) * limit < depth * is_visible.size:
            return None
        while True:
            nearest = self._nearest(query, wanted)
            if nearest is None:
                return None
            rows = self._rows_of(nearest)
            if is_visible is not None:
                rows = rows[is_visible[rows]]
            if len(rows) >= depth or wanted == nodes:
                return rows
            if wanted == limit:
                return None
            wanted = min(2 * wanted, limit)

    @property
    def nbytes(self) -> int:
        """Memory of the graph, as hnswlib counts it."""
        return int(self._index.index_file_size())

    def _enrol(self, block: RowBlock) -> tuple[Integers, list[int]]:
        """The node of every row, and the first row of every node that is new."""
        nodes = np.empty(len(block), dtype=np.int64)
        first_rows = []
        for row, vector in enumerate(block.vectors):
            digest = hashlib.sha256(vector.data).digest()
            if digest not in self._node_of:
                self._node_of[digest] = len(self._node_of)
                first_rows.append(row)
            nodes[row] = self._node_of[digest]
        return nodes, first_rows

    def _insert(self, vectors: Vectors) -> None:
        total = len(self._node_of)
        if self._capacity == 0:
            self._capacity = total
            self._index.init_index(
                max_elements=total,
                M=self._settings.m,
                ef_construction=self._settings.ef_construction,
                random_seed=self._settings.seed,
            )
        elif total > self._capacity:
            self._capacity = max(total, self._capacity * 3 // 2)
            self._index.resize_index(self._capacity)
        if len(vectors):
            nodes = np.arange(total - len(vectors), total)
            self._index.add_items(vectors, nodes, num_threads=self._settings.threads)

    def _nearest(self, query: Vector, count: int) -> Integers | None:
        self._index.set_ef(max(self._settings.ef_search, count))
        try:
            nodes, _ = self._index.knn_query(query[np.newaxis], k=count, num_threads=1)
        except RuntimeError as error:
            # hnswlib's way to say that it reached fewer nodes than were asked for.
            if "contiguous 2D array" not in str(error):
                raise
            return None
        return np.asarray(nodes[0], dtype=np.int64)

    def _rows_of(self, nodes: Integers) -> RowNumbers:
        starts, stops = self._starts[nodes].tolist(), self._starts[nodes + 1].tolist()
        return np.concatenate([self._rows_by_node[a:b] for a, b in zip(starts, stops, strict=True)])


def _empty_index(dim: int) -> Any:
    try:
        import hnswlib
    except ImportError as error:
        raise MissingDependencyError(
            "index=hnsw needs hnswlib, which is not installed; run: pip install hnswlib "
            "(it is compiled, so a C++ compiler and the Python headers must be there), or use index=exact"
        ) from error
    # Unit rows make the inner product the cosine, and hnswlib keeps no second, normalised copy.
    return hnswlib.Index(space="ip", dim=dim)
