"""Settings and fixtures every test shares."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines differ and are shared; how long an example takes is no property.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def locomo_path() -> Path:
    """LoCoMo's JSON file, which is not part of the repository: its licence is non-commercial."""
    path = os.environ.get("LOCOMO_PATH")
    if not path:
        pytest.skip("LOCOMO_PATH does not name LoCoMo's JSON file, which is not part of the repository")
    return Path(path)


@pytest.fixture
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout's own `.recall`, so that real conversations are embedded once per checkout."""
    home = Path(__file__).parent.parent / ".recall"
    monkeypatch.setenv("RECALL_HOME", str(home))
    return home
