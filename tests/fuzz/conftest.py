"""How many inputs were tried, by target, at the end of a run."""

import os

import pytest
from fuzz_counts import TRIED

LEAST = int(os.environ.get("FUZZ_LEAST", "0"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts."""
    if TRIED:
        for target, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"fuzzed {target}: {count:,} inputs")
        terminalreporter.write_line(f"fuzzed in all: {TRIED.total():,} inputs")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Too few inputs are a failure: a fuzzer that hardly ran proves nothing."""
    if TRIED and TRIED.total() < LEAST:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
