"""Fusion and age, with numbers worked out by hand."""

from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from recall.errors import OptionsError
from recall.protocols import ChangedMessage, Changes, EncodedQuery
from recall.retrievers.hybrid import HybridRetriever
from recall.retrievers.narrowed import NarrowedRetriever
from recall.retrievers.recency_weighted import RecencyWeightedRetriever
from recall.schema import Ranking, SearchScope, utc

ANN = SearchScope("ann")


class Fixed:
    """Ranks as it is told."""

    score_range = (-1.0, 1.0)
    space = None

    def __init__(self, **scores: float) -> None:
        self.scores = dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))

    def follow(self, changes: Changes) -> None:
        pass

    def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(text, 1.5)

    def rank(self, query, scope, depth, *, before=None, exact=False) -> Ranking:
        shown = list(self.scores.items())[:depth]
        return Ranking(tuple(name for name, _ in shown), np.array([value for _, value in shown], dtype=np.float32))


def fused(say, dense: Fixed, lexical: Fixed, **settings) -> dict[str, float]:
    hybrid = HybridRetriever(dense, lexical, **settings)
    names = sorted({*dense.scores, *lexical.scores})
    hybrid.follow(Changes(1, [ChangedMessage(say(name, at=n), None, "t") for n, name in enumerate(names)]))
    found = hybrid.rank(hybrid.encode("?"), ANN, 10)
    return dict(zip(found.message_ids, found.scores.tolist(), strict=True))


def test_min_max_stretches_each_side_over_the_scope(say):
    found = fused(say, Fixed(a=0.9, b=0.4, c=-0.1), Fixed(c=8.0, b=2.0))
    assert found == pytest.approx({"a": 0.5, "b": 0.5 * 0.5 + 0.5 * 2 / 8, "c": 0.5})
    assert list(found) == ["a", "c", "b"]  # a and c tie, and a is older


def test_min_max_takes_the_smallest_score_where_a_lexical_side_finds_everything(say):
    found = fused(say, Fixed(a=1.0, b=0.0), Fixed(a=4.0, b=2.0), weight=0.25)
    assert found == pytest.approx({"a": 1.0, "b": 0.0})


def test_equal_scores_are_worth_nothing(say):
    assert fused(say, Fixed(a=0.5, b=0.5), Fixed(b=1.0)) == pytest.approx({"b": 0.5, "a": 0.0})


def test_reciprocal_ranks(say):
    found = fused(say, Fixed(a=0.9, b=0.8, c=0.7), Fixed(c=9.0, a=1.0), fusion="rrf", rrf_k=60.0, candidates=2)
    assert found == pytest.approx(
        {"a": 0.5 / 61 + 0.5 / 62, "c": 0.5 / 61, "b": 0.5 / 62}, abs=1e-6
    )  # c is not among the first two of the dense side


def test_a_fused_score_has_no_scale_and_the_time_of_the_model(say):
    hybrid = HybridRetriever(Fixed(), Fixed())
    assert hybrid.score_range == (np.inf, -np.inf)
    assert hybrid.encode("?").ms == 1.5


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fusion": "sum"}, "fusion is 'sum', expected 'min_max' or 'rrf'"),
        ({"weight": 1.5}, "weight is 1.5, expected a number from 0 to 1"),
        ({"rrf_k": 0.0}, "rrf_k is 0.0, expected a finite number above 0"),
        ({"candidates": 0}, "candidates is 0, expected an integer from 1 to 100000"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, sentence):
    with pytest.raises(OptionsError, match=sentence):
        HybridRetriever(Fixed(), Fixed(), **settings)


def test_a_score_halves_with_every_half_life(say):
    weighted = RecencyWeightedRetriever(Fixed(new=0.5, old=0.8, older=-0.4), half_life_days=1)
    day = timedelta(days=1).total_seconds()
    messages = [say("older", at=0), say("old", at=2 * day), say("new", at=4 * day)]
    weighted.follow(Changes(1, [ChangedMessage(each, None, "t") for each in messages]))
    found = weighted.rank(weighted.encode("?"), ANN, 10)
    assert dict(zip(found.message_ids, found.scores.tolist(), strict=True)) == pytest.approx(
        {"new": 0.5, "old": 0.2, "older": -0.4}
    )
    asked = messages[-1].created_at + timedelta(days=1)
    assert weighted.rank(weighted.encode("?"), ANN, 1, before=asked).scores.tolist() == [0.25]


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), True])
def test_a_half_life_is_above_nothing(days):
    with pytest.raises(OptionsError, match="half_life_days is"):
        RecencyWeightedRetriever(Fixed(), half_life_days=days)


def test_what_is_out_of_a_date_range_or_role_is_gone(say):
    told: list[Changes] = []
    inner = SimpleNamespace(follow=told.append)
    narrowed = NarrowedRetriever(inner, roles=["user"], since=utc(2024, 3, 5, 10), until=utc(2024, 3, 5, 12))
    messages = [
        say("early"),
        say("in", at=3600),
        say("late", at=3 * 3600),
        say("other", at=3600, role="assistant"),
    ]
    narrowed.follow(Changes(7, [ChangedMessage(each, None, "t") for each in messages], ["gone"]))
    assert [entry.message.message_id for entry in told[0].changed] == ["in"]
    assert told[0].removed == ["gone", "early", "late", "other"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"roles": []}, "roles is \\[\\], expected null, or a list"),
        ({"roles": "user"}, "roles is 'user', expected null, or a list"),
        (
            {"since": utc(2024, 3, 5).replace(tzinfo=None)},
            "since is '2024-03-05T00:00:00', expected a time with a zone",
        ),
        ({"since": utc(2024, 3, 5), "until": utc(2024, 3, 5)}, "until is .*, expected a time after since"),
    ],
)
def test_a_range_that_leaves_nothing_is_refused(settings, sentence):
    with pytest.raises(OptionsError, match=sentence):
        NarrowedRetriever(Fixed(), **settings)
