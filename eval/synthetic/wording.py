"""Puts people and values into sentences."""

import re
from collections.abc import Mapping

import numpy as np

from eval.synthetic.bank import Frames, Talk
from eval.synthetic.draws import Decks, happens, pick
from eval.synthetic.particles import attach
from eval.synthetic.world import Person

FORMS_TOLD = ("name",) * 3 + ("role",) + ("full",)
FORMS_ASKED = ("name",) * 3 + ("role",)
"""How often a person is called by name, by role, or by both, after the first time."""
WRAPPED_SHARE = 0.45
"""Share of statements with something else said before, and with something else after."""
ASKING_SHARE = 0.3
SENTENCE_START = re.compile(r"(?:^|(?<=[.!?] ))[a-z]")


class Word(str):
    """Text that takes a Korean particle as its format: "{who:은}"; without one it is plain text."""

    __slots__ = ()

    def __format__(self, particle: str) -> str:
        """The word, with the particle in the form that its last sound asks for."""
        return attach(self, particle) if particle else str(self)


class Wording:
    """Writes the sentences of one resource, and knows which people have been introduced by name and role."""

    def __init__(self, talk: Talk, rng: np.random.Generator) -> None:
        """Start with nobody introduced."""
        self._talk = talk
        self._rng = rng
        self._decks = Decks(rng)
        self._introduced: set[str] = set()

    def say(self, frames: Frames, *, subject: Person | None = None, value: str = "", speaker: str = "user") -> str:
        """A sentence about one person, if any; the first about them has both name and role."""
        template = self._decks.draw(frames)
        return self.fill(template, subject=subject, value=value, speaker=speaker)

    def fill(self, template: str, *, subject: Person | None = None, value: str = "", speaker: str = "user") -> str:
        """This sentence about one person, if any; the first about them has both name and role."""
        slots = self._slots(value)
        if subject:
            form = pick(self._rng, FORMS_TOLD)
            if "{who" in template and subject.name not in self._introduced:
                self._introduced.add(subject.name)
                form = "full"
            slots |= self._called("who", subject, form, speaker)
        return _sentence_case(template.format_map(slots))

    def ask(self, frames: Frames, subjects: tuple[Person, ...]) -> str:
        """A question about none, one or two people, each by name or by role."""
        slots = self._slots("")
        for place, person in zip(("who", "other"), subjects, strict=False):
            slots |= self._called(place, person, pick(self._rng, FORMS_ASKED), "user")
        question = _sentence_case(self._decks.draw(frames).format_map(slots))
        if happens(self._rng, ASKING_SHARE):
            return self._decks.draw(self._talk.asking).format(question=question)
        return question

    def in_passing(self, statement: str) -> str:
        """The statement with, now and then, something else said before or after it."""
        parts = [statement]
        if happens(self._rng, WRAPPED_SHARE):
            parts.insert(0, self.say(self._talk.before))
        if happens(self._rng, WRAPPED_SHARE):
            parts.append(self.say(self._talk.after))
        return " ".join(parts)

    def small_talk(self) -> tuple[str, str]:
        """A request and its answer, with the same words in both."""
        slots = self._slots("")
        request, answer = self._decks.draw(self._talk.small_talk)
        return _sentence_case(request.format_map(slots)), _sentence_case(answer.format_map(slots))

    def _slots(self, value: str) -> dict[str, Word]:
        words = {kind: Word(pick(self._rng, choices)) for kind, choices in self._talk.words.items()}
        return {**words, "value": Word(value)}

    def _called(self, place: str, person: Person, form: str, speaker: str) -> Mapping[str, Word]:
        names = {"name": Word(person.name), "role": Word(person.role)}
        called = Word(self._talk.forms[speaker][form].format_map(names))
        pronouns = {key: Word(word) for key, word in self._talk.pronouns[person.gender].items()}
        return {place: called, **pronouns} if place == "who" else {place: called}


def _sentence_case(text: str) -> str:
    return SENTENCE_START.sub(lambda start: start.group().upper(), text)
