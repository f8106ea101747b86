"""When everything is said: threads days apart, each in one to three sittings that interleave with other threads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
MAX_SITTINGS = 3


def thread_starts(rng: np.random.Generator, threads: int) -> list[datetime]:
    """The first day of every thread, 2 to 12 days after that of the one before."""
    day = int(rng.integers(0, 60))
    starts = []
    for _ in range(threads):
        starts.append(EPOCH + timedelta(days=day))
        day += int(rng.integers(2, 13))
    return starts


def message_times(rng: np.random.Generator, sizes: Sequence[int], first_day: datetime) -> list[list[datetime]]:
    """Increasing times for the messages of a thread's exchanges; an exchange lies within one sitting.

    Args:
        rng: The source of chance.
        sizes: Messages of each exchange, in order.
        first_day: Midnight of the day of the first sitting.
    """
    sittings = min(len(sizes), int(rng.integers(1, MAX_SITTINGS + 1)))
    breaks = sorted(rng.permutation(range(1, len(sizes)))[: sittings - 1].tolist())
    now = first_day + _time_of_day(rng)
    times = []
    for index, size in enumerate(sizes):
        if index in breaks:
            next_day = now.replace(hour=0, minute=0, second=0) + timedelta(days=int(rng.integers(3, 31)))
            now = next_day + _time_of_day(rng)
        exchange = []
        for _ in range(size):
            exchange.append(now)
            now += timedelta(seconds=int(rng.integers(20, 240)))
        times.append(exchange)
    return times


def _time_of_day(rng: np.random.Generator) -> timedelta:
    return timedelta(seconds=int(rng.integers(7 * 3600, 22 * 3600)))
