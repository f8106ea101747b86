"""Where and when each query is asked, in which words, and which messages answer it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np

from eval.synthetic.bank import Frames, Topic
from eval.synthetic.conversation import Conversation, Said
from eval.synthetic.draws import happens, pick
from eval.synthetic.plan import Intent, QueryType
from eval.synthetic.wording import Wording

Place = Literal["same", "other", "new"]
PLACES: dict[QueryType, tuple[Place, ...]] = {
    "single_thread": ("same",),
    "other_thread": ("other", "other", "new"),
}
"""Where queries of a type are asked, relative to the thread of the newest evidence, each equally likely."""
ANY_PLACE: tuple[Place, ...] = ("same", "other", "other", "new")
MESSAGES_BETWEEN = 6
"""Messages between evidence and a query in the same thread. Where there are fewer, single_thread asks at the thread's
end and the other types ask in a new one."""
UNANSWERABLE_FROM = 0.3
"""Part of the time line after which unanswerable queries are asked: there must be something to be misled by."""
LONG_PAUSE = timedelta(minutes=10)
AFTERWARDS = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Spot:
    """A moment at which something can be asked: between two exchanges of a thread, or (thread None) in a new one."""

    thread: int | None
    position: int
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """One query.

    Attributes:
        type: Its query type.
        spot: Where and when it is asked.
        text: What is asked.
        relevance: Messages that were judged and their grade: 1 holds evidence, 0 only looks like it.
    """

    type: QueryType
    spot: Spot
    text: str
    relevance: tuple[tuple[Said, int], ...]


class Questioner:
    """Asks the intents of one resource."""

    def __init__(self, conversation: Conversation, wording: Wording, rng: np.random.Generator) -> None:
        """Find the moments at which the conversation can be interrupted."""
        self._conversation = conversation
        self._wording = wording
        self._rng = rng
        self._spots = [spot for thread in range(len(conversation.threads)) for spot in self._spots_of(thread)]
        times = [message.created_at for thread in conversation.threads for message in thread]
        self._first, self._last = min(times), max(times)

    def question(self, intent: Intent) -> Question:
        """The intent as a query: asked when its evidence is there, judged by what is visible then."""
        tellings = [message for fact in intent.facts for message in self._conversation.told[fact.number]]
        tellings.sort(key=lambda message: message.created_at)
        spot = self._spot(intent.type, self._anchor(intent.type, tellings))
        visible = [message for message in tellings if message.created_at < spot.asked_at]
        newest_only = intent.type == "update"
        grades = [(message, int(not newest_only or message is visible[-1])) for message in visible]
        for fact in intent.facts:
            touching = self._conversation.touched[fact.number]
            grades += [(message, 0) for message in touching if message.created_at < spot.asked_at]
        return Question(intent.type, spot, self._words(intent), tuple(grades))

    def _anchor(self, query_type: QueryType, tellings: Sequence[Said]) -> Said | None:
        """The message that has to be there before the query; None where nothing was told."""
        if query_type == "update":
            return pick(self._rng, tellings[1:])
        return tellings[-1] if tellings else None

    def _spot(self, query_type: QueryType, anchor: Said | None) -> Spot:
        place = pick(self._rng, PLACES.get(query_type, ANY_PLACE))
        after = anchor.created_at if anchor else self._first + (self._last - self._first) * UNANSWERABLE_FROM
        spots = [] if place == "new" else [spot for spot in self._spots if spot.asked_at > after]
        if anchor and place == "same":
            same = [spot for spot in spots if spot.thread == anchor.thread]
            late = [spot for spot in same if spot.position >= anchor.position + MESSAGES_BETWEEN]
            spots = late or (same[-1:] if query_type == "single_thread" else [])
        if anchor and place == "other":
            spots = [spot for spot in spots if spot.thread != anchor.thread]
        return pick(self._rng, spots) if spots else self._new_thread(after)

    def _new_thread(self, after: datetime) -> Spot:
        seconds = int((self._last + AFTERWARDS - after).total_seconds())
        return Spot(None, 0, after + timedelta(seconds=int(self._rng.integers(30, seconds))))

    def _spots_of(self, thread: int) -> list[Spot]:
        messages = self._conversation.threads[thread]
        spots = []
        for end in self._conversation.ends[thread]:
            following = messages[end + 1].created_at if end + 1 < len(messages) else None
            spots.append(Spot(thread, end, self._moment(messages[end].created_at, following)))
        return spots

    def _moment(self, before: datetime, following: datetime | None) -> datetime:
        """A time strictly between two messages; near one of them where there are days between."""
        if following is None:
            return before + timedelta(seconds=int(self._rng.integers(30, 600)))
        if following - before < LONG_PAUSE:
            return before + (following - before) * float(self._rng.uniform(0.2, 0.8))
        if happens(self._rng, 0.5):
            return before + timedelta(seconds=int(self._rng.integers(30, 600)))
        return following - timedelta(seconds=int(self._rng.integers(30, 600)))

    def _words(self, intent: Intent) -> str:
        subjects = tuple(fact.subject for fact in intent.facts if fact.subject)
        return self._wording.ask(_question_frames(intent), subjects)


def _question_frames(intent: Intent) -> Frames:
    topic = intent.facts[0].topic
    if not isinstance(topic, Topic):
        return topic.asks
    if intent.type == "update":
        return topic.latest
    if len(intent.facts) == 2:
        return topic.both
    return topic.asks if intent.facts[0].subject else topic.asks_self
