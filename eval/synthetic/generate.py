"""The small seeded generator of multi-thread conversations: the same settings give the same bytes."""

from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import polars as pl

from eval.collection import build_collection
from eval.schema import MESSAGES, QRELS, QUERIES, TestCollection
from eval.synthetic.bank import Language, PhraseBank, load_bank
from eval.synthetic.conversation import Conversation, Script, converse
from eval.synthetic.placement import WASTED_PER_THREAD, Filler, lay_out, thread_lengths
from eval.synthetic.plan import messages_needed, needed_exchanges, needs, plan_intents
from eval.synthetic.questions import Question, Questioner
from eval.synthetic.rows import Rows
from eval.synthetic.timeline import message_times, thread_starts
from eval.synthetic.wording import Wording
from eval.synthetic.world import World
from recall.errors import OptionsError

GENERATOR_VERSION = "1"
LICENCE = "Apache-2.0"
MAX_QUERIES_PER_RESOURCE = 50
"""Beyond it the phrase bank has too few topics to tell each query's facts once only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be chosen; every number is checked before anything is made.

    Attributes:
        resources: Owners of threads; each is a cluster.
        threads_per_resource: 2 or more.
        messages_per_thread: Mean over the threads of a resource; 8 or more.
        queries_per_resource: No more than the messages have room to answer.
        language: "en" or "ko".
        seed: 0 or more.
    """

    resources: int
    threads_per_resource: int
    messages_per_thread: int
    queries_per_resource: int
    language: str
    seed: int

    def __post_init__(self) -> None:
        """Refuse what cannot be generated.

        Raises:
            OptionsError: With the setting's name, the value and what is allowed.
        """
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise OptionsError(name, value, f"an integer from {low} to {high}")
        if self.language not in get_args(Language):
            raise OptionsError("language", self.language, " or ".join(map(repr, get_args(Language))))
        most = _most_queries(self.threads_per_resource * (self.messages_per_thread - WASTED_PER_THREAD))
        if self.queries_per_resource > most:
            raise OptionsError(
                "queries_per_resource",
                self.queries_per_resource,
                f"at most {most} with {self.threads_per_resource} threads of {self.messages_per_thread} messages",
            )


RANGES = {
    "resources": (1, 10_000),
    "threads_per_resource": (2, 1_000),
    "messages_per_thread": (8, 1_000),
    "queries_per_resource": (1, MAX_QUERIES_PER_RESOURCE),
    "seed": (0, 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class _Resource:
    conversation: Conversation
    questions: list[Question]


def generate(
    *,
    resources: int = 24,
    threads_per_resource: int = 8,
    messages_per_thread: int = 16,
    queries_per_resource: int = 25,
    language: str = "en",
    seed: int = 0,
    name: str | None = None,
) -> TestCollection:
    """A test collection of `resources x threads_per_resource x messages_per_thread` messages with planted evidence.

    Args:
        resources: Owners of threads; each is a cluster, every third is in the test split.
        threads_per_resource: 2 or more.
        messages_per_thread: Mean over the threads of a resource; 8 or more.
        queries_per_resource: 50 or fewer, and no more than the messages have room to answer.
        language: "en" or "ko".
        seed: 0 or more; the same settings give the same bytes.
        name: The collection's name; None makes one from language and seed.

    Raises:
        OptionsError: A setting is outside what is allowed.
    """
    settings = Settings(
        resources=resources,
        threads_per_resource=threads_per_resource,
        messages_per_thread=messages_per_thread,
        queries_per_resource=queries_per_resource,
        language=language,
        seed=seed,
    )
    bank = load_bank(language)
    generated = [_resource(settings, bank, number) for number in range(resources)]
    title = f"synthetic_{language}_{seed}" if name is None else name
    return build_collection(*_frames(generated, seed), _manifest(settings, title))


def _resource(settings: Settings, bank: PhraseBank, number: int) -> _Resource:
    # A stream of its own for each resource: more of them leave the others as they are.
    rng = np.random.default_rng([settings.seed, number])
    wanted = needs(number * settings.queries_per_resource, settings.queries_per_resource)
    world = World(bank, rng, settings.queries_per_resource)
    intents = plan_intents(world, wanted)
    lengths = thread_lengths(rng, settings.threads_per_resource, settings.messages_per_thread)
    needed = needed_exchanges(intents, rng)
    threads = lay_out(needed, lengths, filler=Filler(needed, world, rng), rng=rng)
    starts = thread_starts(rng, settings.threads_per_resource)
    sizes = [[exchange.size for exchange in thread] for thread in threads]
    times = [message_times(rng, thread, start) for thread, start in zip(sizes, starts, strict=True)]
    wording = Wording(bank.talk, rng)
    conversation = converse(Script(bank.talk, wording, rng), threads, times)
    questioner = Questioner(conversation, wording, rng)
    return _Resource(conversation, [questioner.question(intent) for intent in intents])


def _frames(generated: list[_Resource], seed: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    messages: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    qrels: list[dict[str, Any]] = []
    for number, resource in enumerate(generated):
        rows = Rows(seed, number)
        messages += [rows.message(said) for thread in resource.conversation.threads for said in thread]
        for index, question in enumerate(resource.questions):
            queries.append(rows.query(index, question))
            qrels += rows.qrels(index, question)
    return (
        pl.DataFrame(messages, schema=MESSAGES, orient="row"),
        pl.DataFrame(queries, schema=QUERIES, orient="row"),
        pl.DataFrame(qrels, schema=QRELS, orient="row"),
    )


def _manifest(settings: Settings, name: str) -> dict[str, Any]:
    parameters = asdict(settings)
    return {
        "name": name,
        "version": GENERATOR_VERSION,
        "licence": LICENCE,
        "language": settings.language,
        "source": "generated by eval.synthetic.generate",
        "notes": [],
        "generator": {"version": GENERATOR_VERSION, "seed": parameters.pop("seed"), "parameters": parameters},
    }


def _most_queries(room: int) -> int:
    """How many queries of one resource always find room for their evidence in so many messages."""
    fitting = (count for count in range(MAX_QUERIES_PER_RESOURCE, 0, -1) if messages_needed(count) <= room)
    return next(fitting, 0)
