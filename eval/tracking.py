"""Results into MLflow; the only module that imports it."""

import json
import logging
import os
import re
import shlex
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from filelock import FileLock

from eval.errors import OutputError
from eval.system import home

URI_VARIABLE = "MLFLOW_TRACKING_URI"
PARAM_BATCH = 100  # the server's limit on parameters in one call
PARAM_LENGTH = 500
DATASET_NAME_LENGTH = 500
DIGEST_LENGTH = 36
CONNECT_SECONDS = 5.0
PARENT_TAG = "mlflow.parentRunId"
NAME_LENGTH = 200
FRONT_RUNS = 12
"""Rows of a front that get a run of their own; the table has every row."""


class Tracker(Protocol):
    """Takes one command's results."""

    def check(self) -> None:
        """Raise OutputError if results could not be recorded, before anything is measured."""
        ...

    def log(self, results: Mapping[str, Any], folder: Path, multirun: str | None = None) -> str | None:
        """Record results and the files of a run directory, under their multirun; a command that shows them, or None."""
        ...


class NoTracker:
    """Leaves results in the run directory."""

    def check(self) -> None:
        """Do nothing."""

    def log(self, results: Mapping[str, Any], folder: Path, multirun: str | None = None) -> str | None:
        """Do nothing."""
        return None


class MlflowTracker:
    """One MLflow run per command: parameters, metrics, manifest and the run directory's files."""

    def __init__(self, uri: str | None = None, experiment: str = "recall") -> None:
        """Choose a server or store.

        Args:
            uri: Any MLflow tracking URI; None takes $MLFLOW_TRACKING_URI, or a SQLite file under `.recall/`.
            experiment: The experiment's name.
        """
        self._given = uri or os.environ.get(URI_VARIABLE)
        self._experiment = experiment

    @property
    def uri(self) -> str:
        """The tracking URI in use; absolute where it is a local file."""
        return self._given or f"sqlite:///{home() / 'mlflow.db'}"

    def check(self) -> None:
        """Try the store or server once, because MLflow itself would retry for minutes.

        Raises:
            OutputError: The file cannot be written, or the server does not answer.
        """
        shown, address = _without_password(self.uri), urlsplit(self.uri)
        if address.scheme == "file" or (not address.scheme and not self.uri.startswith("databricks")):
            raise OutputError(
                f"the tracking URI is {self.uri!r}, expected a database or a server, such as "
                "sqlite:////folder/mlflow.db or http://host:5000; MLflow writes no plain folders any more"
            )
        try:
            if address.scheme == "sqlite":
                _try_sqlite(Path(self.uri.removeprefix("sqlite:///")))
            elif address.scheme in ("http", "https"):
                port = address.port or (443 if address.scheme == "https" else 80)
                socket.create_connection((address.hostname or "", port), timeout=CONNECT_SECONDS).close()
        except (OSError, ValueError, sqlite3.Error) as error:
            raise OutputError(
                f"cannot record runs in MLflow at {shown}: {_first_line(error)}; "
                "set MLFLOW_TRACKING_URI to a store that can be written, or tracking=off"
            ) from error

    def log(self, results: Mapping[str, Any], folder: Path, multirun: str | None = None) -> str | None:
        """Record results as one run, a sweep's front as runs nested in it; the command that opens them.

        Jobs of a multirun are nested in one run of its name.

        Raises:
            OutputError: The store or server cannot be written; the run directory is complete all the same.
        """
        # Its usage reports would need a network.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        import mlflow

        shown = _without_password(self.uri)
        for noisy in ("alembic", mlflow.__name__):  # its import sets them to report every table it makes
            logging.getLogger(noisy).setLevel(logging.WARNING)
        try:
            self._log(results, folder, multirun)
        except Exception as error:  # whatever a store or server fails with, the results are there and are named
            raise OutputError(
                f"cannot record the run in MLflow at {shown}: {_first_line(error)}; results are in {folder}; "
                "set MLFLOW_TRACKING_URI to a store that can be written, or tracking=off"
            ) from error
        if self.uri.startswith("sqlite:"):
            beside = Path(sys.executable).with_name("mlflow")
            return shlex.join([str(beside) if beside.exists() else "mlflow", "ui", "--backend-store-uri", self.uri])
        return f"MLflow at {shown}"

    def _log(self, results: Mapping[str, Any], folder: Path, multirun: str | None) -> None:
        from mlflow import MlflowClient

        with self._alone():
            client = MlflowClient(self.uri)
            experiment_id = self._experiment_id(client)
            parent = None if multirun is None else self._parent_id(client, experiment_id, multirun)
        tags = {"command": str(results["command"]), **({} if parent is None else {PARENT_TAG: parent})}
        run_id = client.create_run(experiment_id, run_name=folder.name, tags=tags).info.run_id
        try:
            self._fill(client, run_id, results, folder)
        except BaseException:
            client.set_terminated(run_id, "FAILED")
            raise
        client.set_terminated(run_id)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """MLflow makes a new database in many steps, which two processes at once would spoil."""
        if self._given:
            yield
            return
        home().mkdir(parents=True, exist_ok=True)
        with FileLock(home() / "mlflow.lock"):
            self._make_database(home() / "mlflow.db")
            yield

    def _make_database(self, path: Path) -> None:
        """Make a new database aside and rename it, so that an interruption leaves none that is half made."""
        from mlflow import MlflowClient

        if path.exists():
            return
        aside = path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        MlflowClient(f"sqlite:///{aside}").search_experiments()
        aside.replace(path)

    def _fill(self, client: Any, run_id: str, results: Mapping[str, Any], folder: Path) -> None:
        from mlflow.entities import Metric, Param

        params = [Param(key, value[:PARAM_LENGTH]) for key, value in sorted(_params(results).items())]
        for start in range(0, len(params), PARAM_BATCH):
            client.log_batch(run_id, params=params[start : start + PARAM_BATCH])
        client.log_batch(run_id, metrics=[Metric(key, value, 0, 0) for key, value in _metrics(results).items()])
        client.log_inputs(run_id, datasets=[_dataset(results)])
        client.log_artifacts(run_id, str(folder))
        self._log_front(client, run_id, results)

    def _log_front(self, client: Any, parent: str, results: Mapping[str, Any]) -> None:
        """A nested run for each of at most FRONT_RUNS rows of a sweep's front."""
        from mlflow.entities import Metric, Param

        experiment_id = client.get_run(parent).info.experiment_id
        for row in _spread(results.get("front", ()), FRONT_RUNS):
            params = _flatten("", row["configuration"])
            name = ", ".join(f"{key} {value}" for key, value in params.items())
            child = client.create_run(experiment_id, run_name=name[:NAME_LENGTH], tags={PARENT_TAG: parent}).info.run_id
            values = {key: value for key, value in row["metrics"].items() if value is not None}
            client.log_batch(
                child,
                params=[Param(key, str(value)) for key, value in params.items()],
                metrics=[Metric(key, float(value), 0, 0) for key, value in values.items()],
            )
            client.set_terminated(child)

    def _parent_id(self, client: Any, experiment_id: str, multirun: str) -> str:
        """The run that stands for a multirun, made by the first of its jobs."""
        found = client.search_runs([experiment_id], filter_string=f"tags.multirun = '{multirun}'", max_results=1)
        if found:
            return str(found[0].info.run_id)
        made = client.create_run(experiment_id, run_name=multirun, tags={"multirun": multirun})
        client.set_terminated(made.info.run_id)
        return str(made.info.run_id)

    def _experiment_id(self, client: Any) -> str:
        found = client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        local = None if self._given else (home() / "mlartifacts").as_uri()
        return str(client.create_experiment(self._experiment, artifact_location=local))


def _try_sqlite(path: Path) -> None:
    """Raise if the file could not be written; leaves nothing where there was nothing."""
    if not path.exists():
        folder = next(each for each in path.parents if each.exists())
        if path.parent != folder and path.parent != home():
            raise FileNotFoundError(f"no folder {path.parent}")
        with tempfile.TemporaryFile(dir=folder):
            return
    with closing(sqlite3.connect(path, timeout=CONNECT_SECONDS)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def _params(results: Mapping[str, Any]) -> dict[str, str]:
    """Settings, configuration and collection, flattened with dots."""
    flat = _flatten("", results["manifest"]["settings"])
    flat |= _flatten("configuration", results["configuration"])
    flat |= _flatten("collection", results["collection"])
    flat["system_id"] = results["system"]["system_id"]
    return {key: str(value) for key, value in flat.items()}


def _metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """Every metric that has a value, and the stage timings."""
    values = {name: entry["value"] for name, entry in results["metrics"].items()}
    for stage, quantiles in results["timings_ms"].items():
        values |= {f"{stage}_ms_{name}": value for name, value in (quantiles or {}).items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _dataset(results: Mapping[str, Any]) -> Any:
    """The collection, as MLflow knows datasets."""
    from mlflow.entities import Dataset, DatasetInput

    collection = results["collection"]
    source = results["manifest"]["settings"].get("collection", {})
    return DatasetInput(
        Dataset(
            name=collection["name"][:DATASET_NAME_LENGTH],
            digest=collection["sha256"][:DIGEST_LENGTH],
            source_type="recall",
            source=json.dumps(source, ensure_ascii=False, default=str),
            profile=json.dumps({"messages": collection["messages"], "queries": collection["queries"]}),
        )
    )


def _spread(rows: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of the rows, evenly apart, the first and the last among them."""
    if len(rows) <= count:
        return list(rows)
    return [rows[round(number * (len(rows) - 1) / (count - 1))] for number in range(count)]


def _flatten(prefix: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(f"{prefix}.{key}".lstrip("."), inner)
    return flat


def _without_password(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//***@", uri)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
