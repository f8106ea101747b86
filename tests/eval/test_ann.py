"""ann_recall against a literal count, its ties, its borders and its table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.ann import ann_recall
from recall.errors import InputError

untimed = settings(deadline=None)
# Few distinct scores make ties common.
score_lists = st.lists(st.sampled_from([0.9, 0.7, 0.699999, 0.5, 0.0, -0.3]), max_size=14)


@untimed
@given(score_lists, score_lists, st.integers(1, 12))
def test_it_equals_the_literal_count(found, exact, k):
    best_exact = sorted(map(np.float32, exact), reverse=True)[:k]
    best_found = sorted(map(np.float32, found), reverse=True)[: len(best_exact)]
    expected = sum(s >= best_exact[-1] for s in best_found) / len(best_exact) if best_exact else None
    assert ann_recall(found, exact, k) == expected


@untimed
@given(score_lists, st.integers(1, 12), st.data())
def test_any_choice_among_the_exact_hits_is_the_share_it_kept_by_score(exact, k, data):
    """An index that returns a part of what is there is judged by what it missed of the best k."""
    kept = data.draw(st.lists(st.sampled_from(range(len(exact))), unique=True) if exact else st.just([]))
    recall = ann_recall([exact[place] for place in kept], exact, k)
    assert recall is None if not exact else 0 <= recall <= 1


@untimed
@given(score_lists.filter(len), st.integers(1, 20))
def test_the_exact_answer_itself_has_recall_one(exact, k):
    assert ann_recall(exact, exact, k) == 1.0


def test_another_message_of_the_same_score_is_as_good():
    # Exact keeps .9 and one of the three .7; the graph kept another of them.
    assert ann_recall([0.9, 0.7], [0.9, 0.7, 0.7, 0.7], k=2) == 1.0


def test_a_miss_of_one_in_four_is_three_quarters():
    # The 4th exact score is .6; of the graph's .9 .8 .6 .5 three reach it.
    assert ann_recall([0.9, 0.8, 0.6, 0.5], [0.9, 0.8, 0.7, 0.6, 0.5], k=4) == 0.75


def test_hits_beyond_k_do_not_make_up_for_a_miss():
    # .7 is the 2nd exact score and three found hits reach it, but only the 2 best count.
    assert ann_recall([0.7, 0.7, 0.7], [0.9, 0.7, 0.7, 0.7], k=2) == 1.0
    assert ann_recall([0.7, 0.5, 0.5], [0.9, 0.7, 0.5], k=2) == 0.5


def test_fewer_messages_than_k_are_the_most_one_can_find():
    assert ann_recall([0.9], [0.9, 0.8], k=10) == 0.5


def test_nothing_to_find_is_null_not_zero():
    assert ann_recall([], [], k=10) is None


def test_float32_scores_of_the_kernel_are_compared_as_they_are():
    scores = np.array([0.7, 0.1], dtype=np.float32)
    assert ann_recall(scores.tolist(), scores, k=2) == 1.0


@pytest.mark.parametrize("k", [0, -3])
def test_a_k_under_one_is_refused(k):
    with pytest.raises(InputError, match=f"k is {k}, expected 1 or more"):
        ann_recall([0.5], [0.5], k=k)
