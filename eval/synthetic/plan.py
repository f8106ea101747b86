"""What will be asked of one resource, and what has to be said so that it can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eval.synthetic.bank import Dialogue, Topic
from eval.synthetic.draws import happens, pick
from eval.synthetic.world import Fact, World

QueryType = Literal["single_thread", "other_thread", "neighbour", "assistant", "update", "multiple", "unanswerable"]
ExchangeKind = Literal["state", "dialogue", "advice", "near", "small_talk", "aside"]


@dataclass(frozen=True, slots=True)
class Need:
    """One query to come: its type and how many messages tell its facts."""

    type: QueryType
    tellings: int = 1


CYCLE = (
    *(Need("neighbour"), Need("other_thread"), Need("single_thread"), Need("update", 2), Need("assistant")),
    *(Need("unanswerable"), Need("multiple", 2), Need("single_thread"), Need("other_thread"), Need("neighbour")),
    *(Need("other_thread"), Need("assistant"), Need("single_thread"), Need("update", 3), Need("unanswerable")),
    *(Need("neighbour"), Need("other_thread"), Need("single_thread"), Need("multiple", 3), Need("assistant")),
    *(Need("update", 2), Need("single_thread"), Need("neighbour"), Need("unanswerable"), Need("other_thread")),
)
"""The types of consecutive queries, over and over: five in 25 in the same thread, five in another, and so on."""

PAIR_SIZE = 2
"""Messages of every exchange but a dialogue or an aside: one each."""
LARGEST_EXCHANGE = 4
DIRECT_NEAR_SHARE = 0.5
"""Share of unanswerable queries whose own topic and person come up without an answer."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A few turns that stay together in a thread.

    Attributes:
        kind: How it is put into words.
        size: Messages in it.
        fact: What it tells, or only touches on (kind near).
        dialogue: The turns of kind dialogue.
        early: Whether it belongs into the first half of its thread, to be asked for later there.
    """

    kind: ExchangeKind
    size: int
    fact: Fact | None = None
    dialogue: Dialogue | None = None
    early: bool = False


@dataclass(frozen=True, slots=True)
class Intent:
    """One query before it has a time and words; `facts` are the ones it asks for."""

    type: QueryType
    facts: tuple[Fact, ...]


def needs(first: int, count: int) -> list[Need]:
    """The needs of queries number `first` to `first + count`, 0-based over the whole collection."""
    return [CYCLE[index % len(CYCLE)] for index in range(first, first + count)]


def messages_needed(count: int) -> int:
    """The most messages that `count` consecutive queries can need."""
    return max(sum(map(_most_messages, needs(first, count))) for first in range(len(CYCLE)))


def plan_intents(world: World, wanted: list[Need]) -> list[Intent]:
    """One intent for each need, with facts nobody else asks for."""
    facts: tuple[Fact, ...]
    never_told = (world.other_persons_fact, world.never_told_topic)
    intents: list[Intent] = []
    for index, need in enumerate(wanted):
        match need.type:
            case "assistant":
                facts = (world.advice(),)
            case "multiple" if need.tellings == 2:
                facts = world.two_facts_of_one_topic()
            case "multiple":
                facts = (world.series(need.tellings),)
            case "unanswerable":
                facts = (never_told[index % 2](),)
            case _:
                facts = (world.fact(tellings=need.tellings, about_person=need.type == "neighbour"),)
        intents.append(Intent(need.type, facts))
    return intents


def needed_exchanges(intents: list[Intent], rng: np.random.Generator) -> list[Exchange]:
    """Everything that has to be said for the intents, in no meaningful order."""
    return [exchange for intent in intents for exchange in _exchanges_of(intent, rng)]


def _exchanges_of(intent: Intent, rng: np.random.Generator) -> Iterator[Exchange]:
    for fact in intent.facts:
        if intent.type == "neighbour":
            yield dialogue_exchange(fact, rng)
        elif intent.type == "assistant":
            yield Exchange("advice", PAIR_SIZE, fact)
        elif not fact.values and happens(rng, DIRECT_NEAR_SHARE):
            yield Exchange("near", PAIR_SIZE, fact)
        else:
            for _ in fact.values:
                yield Exchange("state", PAIR_SIZE, fact, early=intent.type == "single_thread")


def dialogue_exchange(fact: Fact, rng: np.random.Generator) -> Exchange:
    """The fact, told in a short answer that needs the message before it."""
    assert isinstance(fact.topic, Topic)
    dialogue = pick(rng, fact.topic.dialogues)
    return Exchange("dialogue", LARGEST_EXCHANGE if dialogue.ask else LARGEST_EXCHANGE - 1, fact, dialogue)


def _most_messages(need: Need) -> int:
    return LARGEST_EXCHANGE if need.type == "neighbour" else PAIR_SIZE * need.tellings
