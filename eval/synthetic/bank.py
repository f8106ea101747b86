"""The phrase banks: every word the generator can say, by language."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from recall.errors import OptionsError

Language = Literal["en", "ko"]
Frames = tuple[str, ...]
"""Sentences with places to fill, such as "{who} lives in {value}."."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A short answer that says little without the message before it.

    Attributes:
        lead: The user begins.
        ask: The assistant asks, naming the person; None where the lead names the person itself.
        answer: The user's evidence.
    """

    lead: str
    answer: str
    ask: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """One attribute of people: how it is told, asked, touched on and changed (fields: see facts_en.yaml)."""

    key: str
    values: Frames
    states: Frames
    states_self: Frames
    asks: Frames
    asks_self: Frames
    near: Frames
    dialogues: tuple[Dialogue, ...]
    both: Frames
    reactions: Frames
    updates: Frames = ()
    latest: Frames = ()

    @property
    def changes(self) -> bool:
        """Whether the fact may be told anew with another value."""
        return bool(self.updates)


@dataclass(frozen=True, slots=True)
class Series:
    """Things that add up over several messages, about a person or about the user."""

    key: str
    about: Literal["person", "self"]
    values: Frames
    states: Frames
    asks: Frames


@dataclass(frozen=True, slots=True)
class Advice:
    """What the assistant tells at length when it is asked, and is asked for again later."""

    key: str
    values: Frames
    requests: Frames
    answers: Frames
    near: Frames
    asks: Frames


@dataclass(frozen=True, slots=True)
class Talk:
    """People's names and roles, and everything said around the facts (fields: see talk_en.yaml)."""

    forms: Mapping[str, Mapping[str, str]]
    names: Mapping[str, Frames]
    roles: Mapping[str, Frames]
    pronouns: Mapping[str, Mapping[str, str]]
    words: Mapping[str, Frames]
    asking: Frames
    before: Frames
    after: Frames
    reactions: Frames
    reactions_about: Frames
    tails: Frames
    small_talk: tuple[Frames, ...]
    asides: Mapping[str, Frames]


@dataclass(frozen=True, slots=True)
class PhraseBank:
    """Everything that can be said in one language."""

    topics: tuple[Topic, ...]
    series: tuple[Series, ...]
    advice: tuple[Advice, ...]
    talk: Talk


@cache
def load_bank(language: str) -> PhraseBank:
    """The phrase bank of a language.

    Raises:
        OptionsError: There is no bank for the language.
    """
    if language not in get_args(Language):
        raise OptionsError("language", language, " or ".join(map(repr, get_args(Language))))
    facts = _read(f"facts_{language}.yaml")
    return PhraseBank(
        topics=tuple(_topic(entry) for entry in facts["topics"]),
        series=tuple(Series(**_frozen(entry)) for entry in facts["series"]),
        advice=tuple(Advice(**_frozen(entry)) for entry in _read(f"advice_{language}.yaml")["advice"]),
        talk=Talk(**_frozen(_read(f"talk_{language}.yaml"))),
    )


def _topic(entry: dict[str, Any]) -> Topic:
    dialogues = tuple(Dialogue(**turns) for turns in entry["dialogues"])
    return Topic(**{**_frozen(entry), "dialogues": dialogues})


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((files("eval.synthetic") / name).read_text(encoding="utf-8"))
    return document


def _frozen(node: Any) -> Any:
    """The same document with tuples for lists, so that records of it are hashable."""
    if isinstance(node, list):
        return tuple(_frozen(item) for item in node)
    if isinstance(node, dict):
        return {key: _frozen(value) for key, value in node.items()}
    return node
