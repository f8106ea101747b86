"""Which exchange goes into which thread, and what fills the rest."""

from collections.abc import Sequence

import numpy as np

from eval.synthetic.bank import Advice, Topic
from eval.synthetic.draws import pick, shuffled
from eval.synthetic.plan import LARGEST_EXCHANGE, PAIR_SIZE, Exchange, dialogue_exchange
from eval.synthetic.world import World

LENGTH_SPREAD = 0.35
"""Share of its messages that a thread gives to another, at most; the sum stays."""
EARLY_SHARE = 0.4
"""Part of a thread in which early exchanges lie."""
WASTED_PER_THREAD = 1
"""Messages that may be left over where no other exchange fits: large ones are placed first, so pairs come last."""


def thread_lengths(rng: np.random.Generator, threads: int, mean: int) -> list[int]:
    """Messages per thread, uneven, with exactly this mean."""
    lengths = [mean] * threads
    order = shuffled(rng, range(threads))
    for giver, taker in zip(order[::2], order[1::2], strict=False):
        moved = int(rng.integers(int(mean * LENGTH_SPREAD) + 1))
        lengths[giver] -= moved
        lengths[taker] += moved
    return lengths


class Filler:
    """Makes the exchanges that no query needs: distractors first of all, and small talk."""

    KINDS = ("state",) * 6 + ("dialogue",) + ("near",) * 6 + ("advice",) * 2 + ("small_talk",) * 3 + ("aside",) * 2
    """How often each is tried, in twentieths; small talk stands in for what is used up."""
    NEAR_PER_FACT = 2

    def __init__(self, needed: Sequence[Exchange], world: World, rng: np.random.Generator) -> None:
        """Distract from the facts of the exchanges that are needed."""
        self._world = world
        self._rng = rng
        facts = {exchange.fact.number: exchange.fact for exchange in needed if exchange.fact}
        # What is touched on without an answer is about a person, or comes up in other advice.
        near = [f for f in facts.values() if isinstance(f.topic, Advice) or (isinstance(f.topic, Topic) and f.subject)]
        self._near = shuffled(rng, near * self.NEAR_PER_FACT)

    def exchange(self, room: int) -> Exchange:
        """The next messages, no more than there is room for (1 or more)."""
        kind = "aside" if room < PAIR_SIZE else pick(self._rng, self.KINDS)
        if kind == "dialogue" and room >= LARGEST_EXCHANGE and (fact := self._world.spare_fact(about_person=True)):
            return dialogue_exchange(fact, self._rng)
        if kind == "state" and (fact := self._world.spare_fact()):
            return Exchange("state", PAIR_SIZE, fact)
        if kind == "advice" and (fact := self._world.spare_advice()):
            return Exchange("advice", PAIR_SIZE, fact)
        if kind == "near" and self._near:
            return Exchange("near", PAIR_SIZE, self._near.pop())
        return Exchange("aside", 1) if kind == "aside" else Exchange("small_talk", PAIR_SIZE)


def lay_out(
    needed: Sequence[Exchange], lengths: Sequence[int], *, filler: Filler, rng: np.random.Generator
) -> list[list[Exchange]]:
    """The exchanges of every thread in order; each thread is exactly as long as asked.

    Tellings of one fact go to different threads where there is room. Large exchanges are placed first.
    """
    threads: list[list[Exchange]] = [[] for _ in lengths]
    for exchange in sorted(shuffled(rng, needed), key=lambda exchange: -exchange.size):
        pick(rng, _roomy(threads, lengths, exchange)).append(exchange)
    for thread, length in zip(threads, lengths, strict=True):
        while room := length - _size(thread):
            thread.append(filler.exchange(room))
    return [_ordered(thread, rng) for thread in threads]


def _roomy(threads: list[list[Exchange]], lengths: Sequence[int], exchange: Exchange) -> list[list[Exchange]]:
    """Threads with room, those that tell another part of the same fact only where there is no other."""
    fitting = [t for t, length in zip(threads, lengths, strict=True) if _size(t) + exchange.size <= length]
    fresh = [thread for thread in fitting if all(other.fact is not exchange.fact for other in thread)]
    return fresh or fitting


def _ordered(thread: list[Exchange], rng: np.random.Generator) -> list[Exchange]:
    """Random order, early exchanges in the first part, small talk to begin with where there is some."""
    places = [float(rng.random()) * (EARLY_SHARE if exchange.early else 1.0) for exchange in thread]
    ordered = [exchange for _, exchange in sorted(zip(places, thread, strict=True), key=lambda pair: pair[0])]
    opener = next((exchange for exchange in ordered if exchange.kind == "small_talk"), None)
    if opener:
        ordered.remove(opener)
        ordered.insert(0, opener)
    return ordered


def _size(thread: Sequence[Exchange]) -> int:
    return sum(exchange.size for exchange in thread)
