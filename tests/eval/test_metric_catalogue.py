"""The catalogue is complete, and the reference page says of every metric what the catalogue says."""

from pathlib import Path

import pytest

from eval.metrics.catalogue import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
CUTOFFS = (1, 3, 5, 10, 20, 50)
AT_K = {f"{name}_at_{k}" for name in ("recall", "hit", "all", "precision") for k in CUTOFFS}
OTHERS = {"ndcg_at_10", "mrr", "map", "ann_recall_at_10", "ann_gold_loss_at_10", "newest_first"}
EVIDENCE = {"evidence_recall", "evidence_all", "evidence_any"}
CONTEXT = {"context_precision", "context_messages", "context_tokens"}
HISTORY = {"history_recall", "added_recall", "added_messages", "added_tokens"}
WORTH = {"rescue_rate", "window_overlap", "copy_waste", "leaked_messages"}
WITHIN = {f"evidence_recall_within_{budget}" for budget in (250, 500, 1000, 2000)}
SEEN = EVIDENCE | CONTEXT | HISTORY | WORTH | WITHIN


def section_of(name):
    """What the page says under one heading, on one line."""
    return " ".join(PAGE.split(f"### `{name}`\n")[1].split("\n##")[0].split())


def test_every_metric_of_the_results_is_described():
    assert set(catalogue()) == AT_K | OTHERS | SEEN


def test_every_metric_is_listed_under_its_own_name():
    assert all(name == metric.name for name, metric in catalogue().items())


def test_no_name_has_a_character_that_tracking_refuses():
    assert all(name.replace("_", "").isalnum() and name.islower() for name in catalogue())


def test_only_costs_are_better_when_lower_and_only_they_are_unbounded():
    costs = {"context_messages", "context_tokens", "added_messages", "added_tokens", "leaked_messages"}
    waste = {"window_overlap", "copy_waste", "ann_gold_loss_at_10"}
    assert {name for name, metric in catalogue().items() if not metric.higher_is_better} == costs | waste
    assert {name for name, metric in catalogue().items() if metric.value_range == "[0, ∞)"} == costs
    assert {metric.value_range for metric in catalogue().values()} == {"[0, 1]", "[0, ∞)", "[-1, 1]"}


@pytest.mark.parametrize("name", sorted(AT_K | OTHERS | SEEN))
def test_the_reference_page_names_every_metric(name):
    assert f"`{name}`" in PAGE


def test_the_reference_page_names_no_metric_that_is_not_there():
    lines = [line for line in PAGE.splitlines() if line.startswith("**Names:** ")]
    named = {name.strip("`") for line in lines for name in line.removeprefix("**Names:** ").split(", ")}
    assert named == set(catalogue())


@pytest.mark.parametrize("name", sorted(OTHERS | SEEN))
def test_the_reference_page_defines_a_metric_as_the_catalogue_does(name):
    metric, section = catalogue()[name], section_of(name)
    assert all(said in section for said in (metric.definition, metric.value_range, metric.source))


@pytest.mark.parametrize("name", ["recall", "hit", "all", "precision"])
def test_the_reference_page_defines_the_cutoffs_of_a_metric_together_with_k_for_the_number(name):
    metric, section = catalogue()[f"{name}_at_20"], section_of(f"{name}_at_K")
    assert metric.value_range in section
    assert all(said.replace("20", "K") in section for said in (metric.definition, metric.source))
