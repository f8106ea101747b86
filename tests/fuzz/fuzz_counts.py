"""Inputs tried so far, by target; counted by the fuzzers, printed by their conftest."""

from collections import Counter

TRIED: Counter[str] = Counter()
