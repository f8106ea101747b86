"""The text that is embedded for a message: one format string with a speaker's name, one without."""

from dataclasses import dataclass
from string import Formatter

from recall.errors import OptionsError
from recall.schema import Message

PLACEHOLDERS = ("name", "text", "role", "date")


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """Two format strings over the placeholders name, text, role and date.

    Doubled braces stand for a brace. What is filled in is never interpreted, so braces in a message stay as they are.

    Attributes:
        named: For a message whose speaker has a name.
        bare: For every other message; cannot use {name}.

    Raises:
        OptionsError: A placeholder that does not exist, a conversion or a format specification, or no {text}.
    """

    named: str = "{name}: {text}"
    bare: str = "{text}"

    def __post_init__(self) -> None:
        """Validate both format strings once, so that rendering cannot fail."""
        _check("named", self.named, PLACEHOLDERS)
        _check("bare", self.bare, PLACEHOLDERS[1:])

    def render(self, message: Message) -> str:
        """The message's text as it is embedded; `date` is the UTC day of `created_at`, as 2024-05-31."""
        name = message.name or ""
        template = self.named if name.strip() else self.bare
        return template.format(
            name=name, text=message.text, role=message.role, date=message.created_at.date().isoformat()
        )


def _check(option: str, template: str, allowed: tuple[str, ...]) -> None:
    expected = f"a text with {{text}} in it and no placeholders but {', '.join(allowed)} (write {{{{ for a brace)"
    if not isinstance(template, str):
        raise OptionsError(option, template, expected)
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise OptionsError(option, template, expected) from error
    fields = [field for _, field, _, _ in pieces if field is not None]
    # A format specification or "!r" would make the embedded text depend on more than the four values.
    is_plain = all(not spec and not conversion for _, _, spec, conversion in pieces)
    if "text" not in fields or not is_plain or not set(fields) <= set(allowed):
        raise OptionsError(option, template, expected)
