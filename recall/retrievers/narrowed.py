"""Keeps some messages out of another retriever's sight: by role, or by when they were written."""

from collections.abc import Collection, Sequence
from datetime import datetime

from recall.errors import OptionsError
from recall.protocols import Changes, Embedded, EncodedQuery, Retriever, VectorSpace
from recall.schema import Message, Ranking, SearchScope


class NarrowedRetriever:
    """Another retriever over the messages of some roles or times. The others can still be neighbours of hits."""

    def __init__(
        self,
        inner: Retriever,
        *,
        roles: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        """Choose what can be found.

        Args:
            inner: What ranks.
            roles: Only messages of these roles; None for all.
            since: Only messages created at this time or later, aware.
            until: Only messages created strictly earlier, aware.

        Raises:
            OptionsError: No roles, a naive time, or times that leave nothing.
        """
        if roles is not None and (isinstance(roles, str) or not roles):
            raise OptionsError("roles", roles, "null, or a list of roles such as [user]")
        for name, moment in (("since", since), ("until", until)):
            if moment is not None and moment.tzinfo is None:
                raise OptionsError(name, moment.isoformat(), "a time with a zone, such as 2024-05-31T00:00:00Z")
        if since is not None and until is not None and since >= until:
            raise OptionsError("until", until.isoformat(), f"a time after since, {since.isoformat()}")
        self._inner = inner
        self._roles = None if roles is None else frozenset(roles)
        self._since, self._until = since, until

    @property
    def score_range(self) -> tuple[float, float]:
        """The inner one's."""
        return self._inner.score_range

    @property
    def space(self) -> VectorSpace | None:
        """The inner one's."""
        return self._inner.space

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """What the inner one wants kept with the messages that can be found."""
        return self._inner.embed([message for message in messages if self._admits(message)])

    def follow(self, changes: Changes) -> None:
        """Let the inner one take over what can be found; the rest is gone for it."""
        admitted = [entry for entry in changes.changed if self._admits(entry.message)]
        kept = {entry.message.message_id for entry in admitted}
        others = [entry.message.message_id for entry in changes.changed if entry.message.message_id not in kept]
        self._inner.follow(Changes(changes.revision, admitted, [*changes.removed, *others]))

    def encode(self, text: str) -> EncodedQuery:
        """The query in the inner one's form."""
        return self._inner.encode(text)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The inner one's ranking."""
        return self._inner.rank(query, scope, depth, before=before, exact=exact)

    def _admits(self, message: Message) -> bool:
        return (
            (self._roles is None or message.role in self._roles)
            and (self._since is None or message.created_at >= self._since)
            and (self._until is None or message.created_at < self._until)
        )
