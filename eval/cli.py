"""The console script `recall`: reads the command line, runs a command, turns errors into exit codes.

`eval` and `sweep` are Hydra applications; the others take ordinary options. Heavy modules are imported by the
command that needs them, so that help and usage errors are instant.
"""

import argparse
import io
import os
import secrets
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from eval.errors import UsageError
from recall.errors import RecallError

DONE, USAGE, OUR_FAULT, INTERRUPTED = 0, 2, 70, 130
HYDRA_COMMANDS = {"eval": "score one configuration on one collection", "sweep": "score the whole grid in one pass"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter shows its escape
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in words
    try:
        code = _dispatch([word for word in words if word != "--debug"])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; embeddings made so far are kept, and the next call goes on from there\n")
        return INTERRUPTED
    except SystemExit as stop:  # argparse and Hydra's help end this way
        return stop.code if isinstance(stop.code, int) else USAGE
    except RecallError as error:
        return _failed(str(error), USAGE, debug=debug)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        return _failed(f"the package {missing!r} is not installed; run: pip install recall-eval", USAGE, debug=debug)
    except OSError as error:
        return _failed(_os_sentence(error), USAGE, debug=debug)
    except Exception as error:  # the edge: what nobody foresaw is a bug of ours
        return _failed(f"internal error, please report it: {type(error).__name__}: {error}", OUR_FAULT, debug=debug)


def _dispatch(words: list[str]) -> int:
    if words and words[0] in HYDRA_COMMANDS:
        return _hydra_command(words[0], words[1:])
    options = _parser().parse_args(words)
    run = options.run
    return int(run(options))


def _hydra_command(command: str, words: list[str]) -> int:
    """`eval` and `sweep`: everything but `--json` is Hydra's to read."""
    from eval.config import check_flags, check_groups, quoted, run_with_hydra

    check_flags(words)
    check_groups(words)
    as_json = "--json" in words
    # Hydra reads flags in front of the overrides only.
    words = sorted((word for word in words if word != "--json"), key=lambda word: word not in ("-m", "--multirun"))
    sys.argv = ["recall", *map(quoted, words)]
    os.environ["RECALL_RUN_NAME"] = f"{datetime.now():%Y%m%d-%H%M%S}-{command}-{secrets.token_hex(2)}"  # noqa: DTZ005
    finished: list[Any] = []

    def task(settings: Any) -> None:
        from eval.jobs import run_job

        finished.append(run_job(command, settings))

    multirun = run_with_hydra(task)
    if multirun is not None:
        _show_multirun(multirun, as_json=as_json)
    elif finished:
        _show_job(finished[0], as_json=as_json)
    return DONE


def _show_job(finished: Any, *, as_json: bool) -> None:
    from eval import terminal

    if as_json:
        _print_json(finished.document)
        return
    screen = terminal.console()
    for part in terminal.job_parts(finished.document):
        screen.print(part)
    if finished.shown_with:
        screen.print(f"Look closer: {finished.shown_with}", soft_wrap=True, markup=False)
    screen.print(str(finished.folder), soft_wrap=True, markup=False)


def _show_multirun(folder: Path, *, as_json: bool) -> None:
    from eval import terminal
    from eval.results import read_results

    # Folder names hold the job number, so that job-10 must not come before job-2.
    jobs = [read_results(path) for path in sorted(folder.glob("job-*"), key=lambda path: int(path.name[4:]))]
    if as_json:
        _print_json({"jobs": jobs})
        return
    screen = terminal.console()
    for part in terminal.comparison_parts(jobs):
        screen.print(part)
    screen.print(str(folder), soft_wrap=True, markup=False)


def _generate(options: argparse.Namespace) -> int:
    from eval import commands

    return _show_collection(commands.generate_collection(options.overrides, options.out), options)


def _import(options: argparse.Namespace) -> int:
    from eval import commands

    return _show_collection(commands.import_collection(options.format, options.path, options.out), options)


def _validate(options: argparse.Namespace) -> int:
    from eval import commands

    return _show_collection(commands.describe_collection(options.format, options.path), options)


def _show_collection(described: Mapping[str, Any], options: argparse.Namespace) -> int:
    from eval import terminal

    if options.json:
        _print_json(described)
    else:
        screen = terminal.console()
        for part in terminal.collection_parts(described):
            screen.print(part)
    return DONE


def _search(options: argparse.Namespace) -> int:
    from eval import commands, terminal

    where = {"resource_id": options.resource, "thread_id": options.thread}
    if options.store is None:
        found = commands.search(options.text, options.set, **where)
    else:
        found = commands.search_messages(options.text, options.set, options.store, **where)
    if options.json:
        _print_json(found)
        return DONE
    screen = terminal.console()
    for part in terminal.search_parts(found):
        screen.print(part)
    return DONE


def _ingest(options: argparse.Namespace) -> int:
    from eval import commands, terminal
    from recall.schema import RequestContext

    if options.file is None and not options.reindex:
        raise UsageError("nothing to ingest: name a file of messages, - for standard input, or --reindex")
    context = RequestContext(options.thread, options.resource)
    done = commands.ingest_messages(options.file, options.store, options.set, context=context, reindex=options.reindex)
    if options.json:
        _print_json(done)
        return DONE
    screen = terminal.console()
    for part in terminal.ingestion_parts(done):
        screen.print(part)
    return DONE


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def _parser() -> _Parser:
    parser = _Parser(
        prog="recall", description="Measure and choose semantic recall over chat history.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"recall-eval {version('recall-eval')}")
    parser.add_argument("--debug", action="store_true", help="show a traceback instead of one sentence")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, purpose in HYDRA_COMMANDS.items():
        commands.add_parser(name, help=f"{purpose}; settings are KEY=VALUE, see `recall {name} --help`")
    _add_ingest(commands)
    _add_search(commands)
    _add_collection(commands)
    return parser


def _add_ingest(commands: Any) -> None:
    ingest = commands.add_parser(
        "ingest",
        help="put messages into a store that lasts",
        description="Each line of the file is one message: message_id, resource_id, thread_id, role, text, created_at, "
        "name, parts; or an OpenAI-style message; or one of the reference's. A line without an id gets one from its "
        "thread, number and content, so the same file again changes nothing. What is there already is not embedded "
        "again; whole turns are written together; interrupted, the next call goes on.",
    )
    ingest.add_argument("file", nargs="?", help="JSON Lines, UTF-8; - reads standard input")
    _add_store(ingest, required=True)
    ingest.add_argument("--resource", metavar="ID", help="owner of messages that name none")
    ingest.add_argument("--thread", metavar="ID", help="thread of messages that name none")
    ingest.add_argument("--reindex", action="store_true", help="embed again what another embedder embedded")
    _finish(ingest, _ingest)


def _add_store(command: Any, *, required: bool) -> None:
    command.add_argument("--store", type=Path, metavar="FILE", required=required, help="an SQLite file of messages")
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in `recall eval`"
    )


def _add_search(commands: Any) -> None:
    search = commands.add_parser("search", help="ask the engine by hand: hits, windows, block, timings")
    search.add_argument("text", help="what a user would write")
    _add_store(search, required=False)
    search.add_argument(
        "--resource",
        metavar="ID",
        help="whose messages to search; the first of the collection, the only one of a store",
    )
    search.add_argument("--thread", metavar="ID", help="the thread it is asked in; a new thread by default")
    _finish(search, _search)


def _add_collection(commands: Any) -> None:
    actions = commands.add_parser("collection", help="make, import and check test collections").add_subparsers(
        title="actions", metavar="ACTION", required=True
    )
    generate = actions.add_parser("generate", help="make conversations; settings as in `recall eval collection=...`")
    generate.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    generate.add_argument("--out", type=Path, metavar="DIR", help="datasets/NAME by default")
    _finish(generate, _generate)
    foreign = actions.add_parser("import", help="turn a foreign file into a collection")
    foreign.add_argument("format", help="a config of the group `collection` that takes a path, such as locomo")
    foreign.add_argument("path")
    foreign.add_argument("--out", type=Path, metavar="DIR", required=True)
    _finish(foreign, _import)
    for name, purpose in (("validate", "list every fault of a collection"), ("describe", "count what is in it")):
        action = actions.add_parser(name, help=purpose)
        action.add_argument("path", help="a collection's folder, or a file in the given format")
        action.add_argument("--format", default="saved", help="saved (a folder) by default")
        _finish(action, _validate)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def _print_json(document: Mapping[str, Any]) -> None:
    from eval.results import to_json

    encoding = (sys.stdout.encoding or "utf-8").lower().replace("-", "")
    sys.stdout.write(to_json(document, ascii_only=encoding != "utf8"))


def _failed(sentence: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"recall: {sentence}\n")
    return code


def _os_sentence(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; give a path that exists and can be read or written"


if __name__ == "__main__":
    raise SystemExit(main())
