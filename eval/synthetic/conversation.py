"""The messages of one resource, written in the order in which they are said."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from eval.synthetic.bank import Advice, Dialogue, Frames, Series, Talk, Topic
from eval.synthetic.draws import happens, pick
from eval.synthetic.plan import Exchange
from eval.synthetic.wording import Wording
from eval.synthetic.world import Fact

TOPIC_REACTION_SHARE = 0.5
PERSON_REACTION_SHARE = 0.3
TAIL_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Said:
    """One message: which thread (0-based) it is in, where and when, who says it and what."""

    thread: int
    position: int
    created_at: datetime
    role: str
    text: str


@dataclass(slots=True)
class Conversation:
    """Everything said in one resource.

    Attributes:
        threads: The messages of each thread in order.
        ends: For each thread, the positions at which an exchange ends.
        told: Number of a fact to the messages that tell it, oldest first.
        touched: Number of a fact to the messages on its topic and person that do not tell it.
    """

    threads: list[list[Said]]
    ends: list[list[int]]
    told: dict[int, list[Said]] = field(default_factory=lambda: defaultdict(list))
    touched: dict[int, list[Said]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message says, and whether it tells or only touches on the fact of its exchange."""

    role: str
    text: str
    tells: bool = False
    touches: bool = False


def converse(script: "Script", threads: list[list[Exchange]], times: list[list[list[datetime]]]) -> Conversation:
    """Write every exchange in the order of time, so that people are introduced and facts change in that order.

    Args:
        script: Finds the words.
        threads: The exchanges of every thread, in order.
        times: The times of their messages, by thread and exchange.
    """
    conversation = Conversation([[] for _ in threads], [[] for _ in threads])
    places = [(thread, index) for thread, exchanges in enumerate(threads) for index in range(len(exchanges))]
    for thread, index in sorted(places, key=lambda place: (times[place[0]][place[1]][0], place)):
        exchange = threads[thread][index]
        said = conversation.threads[thread]
        for turn, created_at in zip(script.turns(exchange), times[thread][index], strict=True):
            message = Said(thread, len(said), created_at, turn.role, turn.text)
            said.append(message)
            if exchange.fact and turn.tells:
                conversation.told[exchange.fact.number].append(message)
            if exchange.fact and turn.touches:
                conversation.touched[exchange.fact.number].append(message)
        conversation.ends[thread].append(len(said) - 1)
    return conversation


class Script:
    """Turns an exchange into words; remembers how often each fact has been told."""

    def __init__(self, talk: Talk, wording: Wording, rng: np.random.Generator) -> None:
        """Start with nothing told."""
        self._talk = talk
        self._wording = wording
        self._rng = rng
        self._tellings: dict[int, int] = defaultdict(int)

    def turns(self, exchange: Exchange) -> list[Turn]:
        """As many turns as the exchange has messages."""
        if exchange.kind == "small_talk":
            request, answer = self._wording.small_talk()
            return [Turn("user", request), Turn("assistant", answer)]
        if exchange.fact is None:
            role = pick(self._rng, ("user", "assistant"))
            return [Turn(role, self._wording.say(self._talk.asides[role]))]
        if exchange.dialogue:
            return self._dialogue(exchange.dialogue, exchange.fact)
        match exchange.fact.topic:
            case Advice() as advice:
                return self._advice(exchange.fact, advice, is_near=exchange.kind == "near")
            case Topic() as topic if exchange.kind == "near":
                return self._near(exchange.fact, topic)
            case topic:
                return self._state(exchange.fact, topic)

    def _state(self, fact: Fact, topic: Topic | Series) -> list[Turn]:
        version = self._tellings[fact.number]
        self._tellings[fact.number] += 1
        frames = _statements(topic, is_self=fact.subject is None, is_update=version > 0)
        statement = self._wording.say(frames, subject=fact.subject, value=fact.values[version])
        return [Turn("user", self._wording.in_passing(statement), tells=True), self._reaction(fact)]

    def _near(self, fact: Fact, topic: Topic) -> list[Turn]:
        remark = self._wording.in_passing(self._wording.say(topic.near, subject=fact.subject))
        return [Turn("user", remark, touches=True), self._reaction(fact)]

    def _dialogue(self, dialogue: Dialogue, fact: Fact) -> list[Turn]:
        turns = [Turn("user", self._wording.fill(dialogue.lead, subject=fact.subject))]
        if dialogue.ask:
            ask = self._wording.fill(dialogue.ask, subject=fact.subject, speaker="assistant")
            turns.append(Turn("assistant", ask))
        answer = self._wording.fill(dialogue.answer, value=fact.values[0])
        return [*turns, Turn("user", answer, tells=True), self._reaction(fact)]

    def _advice(self, fact: Fact, advice: Advice, *, is_near: bool) -> list[Turn]:
        request = Turn("user", self._wording.say(advice.requests))
        if is_near:
            return [request, Turn("assistant", self._wording.say(advice.near), touches=True)]
        answer = self._wording.say(advice.answers, value=fact.values[0])
        return [request, Turn("assistant", answer, tells=True)]

    def _reaction(self, fact: Fact) -> Turn:
        """What the assistant says to it: on the topic, on the person, or on neither; never the answer."""
        if isinstance(fact.topic, Topic) and happens(self._rng, TOPIC_REACTION_SHARE):
            text = self._wording.say(fact.topic.reactions)
        elif fact.subject and happens(self._rng, PERSON_REACTION_SHARE):
            text = self._wording.say(self._talk.reactions_about, subject=fact.subject, speaker="assistant")
        else:
            text = self._wording.say(self._talk.reactions)
        return Turn("assistant", f"{text} {self._tail()}" if happens(self._rng, TAIL_SHARE) else text)

    def _tail(self) -> str:
        return self._wording.say(self._talk.tails)


def _statements(topic: Topic | Series, *, is_self: bool, is_update: bool) -> Frames:
    if isinstance(topic, Series):
        return topic.states
    if is_update:
        return topic.updates
    return topic.states_self if is_self else topic.states
