"""The small world behind one resource: people, and the facts that may be told about them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eval.synthetic.bank import Advice, PhraseBank, Series, Talk, Topic
from eval.synthetic.draws import Decks, pick, shuffled

PEOPLE = 6
TOLD_PAIRS_PER_QUERY = 2
"""Pairs of topic and person kept ready for each query: one to be told, one to distract."""
MIN_TOLD_TOPICS = 6
NEVER_TOLD_TOPICS = 3
"""Topics that a resource never speaks of, for questions nothing answers."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody the user talks about."""

    name: str
    role: str
    gender: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that messages may tell.

    Attributes:
        number: Unique in its resource.
        topic: What it is about; gives the sentences.
        subject: Whom it is about; None is the user, or nobody.
        values: The answers in the order they are told: versions of a changing fact, items of a series;
            empty for a fact that is asked for and never told.
    """

    number: int
    topic: Topic | Series | Advice
    subject: Person | None
    values: tuple[str, ...]


class World:
    """Draws people and facts of one resource; no fact is handed out twice."""

    def __init__(self, bank: PhraseBank, rng: np.random.Generator, queries: int) -> None:
        """Choose the people and the topics; fewer topics than the bank has, so that people share them."""
        self.people = _draw_people(bank.talk, rng)
        self._rng = rng
        self._decks = Decks(rng)
        self._facts = 0
        wanted = -(-queries * TOLD_PAIRS_PER_QUERY // (PEOPLE + 1))
        told = min(max(wanted, MIN_TOLD_TOPICS), len(bank.topics) - NEVER_TOLD_TOPICS)
        topics = _changing_and_lasting_in_turn(shuffled(rng, bank.topics))
        subjects = (*self.people, None)
        self._pairs = shuffled(rng, [(topic, who) for topic in topics[:told] for who in subjects])
        self._never_told = shuffled(rng, [(topic, who) for topic in topics[told:] for who in self.people])
        self._series = shuffled(rng, bank.series)
        self._advice = shuffled(rng, bank.advice)

    def fact(self, *, tellings: int = 1, about_person: bool = False) -> Fact:
        """A fact that is told `tellings` times; one told again changes, and is about a person."""
        changes = tellings > 1
        of_person = about_person or changes
        pair = self._take(lambda topic, who: (topic.changes or not changes) and (who is not None or not of_person))
        assert pair is not None, "the limit on queries keeps more pairs than are needed"
        return self._numbered(*pair, tellings)

    def two_facts_of_one_topic(self) -> tuple[Fact, Fact]:
        """The same attribute of two people."""
        first = self.fact(about_person=True)
        pair = self._take(lambda topic, who: topic is first.topic and who is not None)
        return (first, self._numbered(*pair, 1)) if pair else self.two_facts_of_one_topic()

    def series(self, tellings: int) -> Fact:
        """A series of `tellings` items."""
        series = self._series.pop()
        return self._numbered(series, pick(self._rng, self.people) if series.about == "person" else None, tellings)

    def advice(self) -> Fact:
        """Something the assistant is asked for."""
        return self._numbered(self._advice.pop(), None, 1)

    def spare_advice(self) -> Fact | None:
        """Advice nobody asks for again; None when there is none left."""
        return self.advice() if self._advice else None

    def spare_fact(self, *, about_person: bool = False) -> Fact | None:
        """A fact nobody asks for; None when there is none left."""
        pair = self._take(lambda _, who: who is not None or not about_person)
        return self._numbered(*pair, 1) if pair else None

    def other_persons_fact(self) -> Fact:
        """A fact that is never told, on a topic that is told of others."""
        pair = self._take(lambda _, who: who is not None)
        assert pair is not None, "the limit on queries keeps more pairs than are needed"
        return self._numbered(*pair, 0)

    def never_told_topic(self) -> Fact:
        """A fact that is never told, on a topic nobody's facts belong to."""
        return self._numbered(*self._never_told.pop(), 0)

    def _take(self, fits: Callable[[Topic, Person | None], bool]) -> tuple[Topic, Person | None] | None:
        """The first pair that fits, no longer available; None where none does."""
        for index, pair in enumerate(self._pairs):
            if fits(*pair):
                return self._pairs.pop(index)
        return None

    def _numbered(self, topic: Topic | Series | Advice, subject: Person | None, tellings: int) -> Fact:
        self._facts += 1
        values: list[str] = []
        while len(values) < tellings:
            value = self._decks.draw(topic.values)
            if value not in values:
                values.append(value)
        return Fact(self._facts, topic, subject, tuple(values))


def _draw_people(talk: Talk, rng: np.random.Generator) -> tuple[Person, ...]:
    """People with different names and different roles."""
    names = {gender: shuffled(rng, talk.names[gender]) for gender in ("f", "m")}
    roles = {group: shuffled(rng, talk.roles[group]) for group in ("f", "m", "any")}
    people = []
    for index in range(PEOPLE):
        gender = pick(rng, ("f", "m"))
        group = gender if index % 2 and roles[gender] else "any"
        people.append(Person(names[gender].pop(), roles[group].pop(), gender))
    return tuple(people)


def _changing_and_lasting_in_turn(topics: list[Topic]) -> list[Topic]:
    """Both sorts spread evenly, so that any beginning of the list has its share of changing topics."""
    sorts = {True: [t for t in topics if t.changes], False: [t for t in topics if not t.changes]}
    places = [((i + 0.5) / len(group), topic) for group in sorts.values() for i, topic in enumerate(group)]
    return [topic for _, topic in sorted(places, key=lambda place: place[0])]
