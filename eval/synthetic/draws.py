"""Random draws that depend on the generator given and on nothing else."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of the items, each equally likely."""
    return items[int(rng.integers(len(items)))]


def shuffled(rng: np.random.Generator, items: Sequence[T]) -> list[T]:
    """The items in random order."""
    return [items[index] for index in rng.permutation(len(items)).tolist()]


def happens(rng: np.random.Generator, probability: float) -> bool:
    """True with this probability, in [0, 1]."""
    return bool(rng.random() < probability)


class Decks:
    """Hands out the items of a list in random order, all of them before any comes again."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Keep one deck for every list that is drawn from."""
        self._rng = rng
        self._left: dict[Any, list[Any]] = {}

    def draw(self, items: tuple[T, ...]) -> T:
        """The next item of the deck that belongs to this list."""
        deck = self._left.setdefault(items, [])
        if not deck:
            deck.extend(shuffled(self._rng, items))
        item: T = deck.pop()
        return item
