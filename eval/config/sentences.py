"""One sentence for everything Hydra and OmegaConf find wrong, with what is allowed."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    ConfigTypeError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from eval.errors import ConfigError
from recall.errors import OptionsError


@contextmanager
def readable_errors(prefix: str = "") -> Iterator[None]:
    """Turn Hydra's and OmegaConf's errors into one sentence that says what is allowed."""
    try:
        yield
    except MissingConfigException as error:
        raise ConfigError(_missing_config(error)) from error
    except OverrideParseException as error:
        raise ConfigError(_unreadable(error)) from error
    except ConfigCompositionException as error:
        cause = error.__cause__
        raise ConfigError(_sentence(cause, prefix) if cause else str(error).splitlines()[0]) from error
    except OmegaConfBaseException as error:
        raise ConfigError(_sentence(error, prefix)) from error
    except HydraException as error:
        raise ConfigError(" ".join(str(error).split())) from error


@contextmanager
def named_in(group: str) -> Iterator[None]:
    """Name an option by the setting it comes from: `recall.top_k`, not `top_k`."""
    try:
        yield
    except OptionsError as error:
        raise OptionsError(f"{group}.{error.field}", error.value, error.allowed) from None


def _sentence(error: BaseException, prefix: str) -> str:
    """What an OmegaConf error means for the person who typed the setting."""
    name = str(getattr(error, "full_key", None) or "")
    full_name = ".".join(part for part in (prefix, name) if part)
    if isinstance(error, ValidationError):
        got = f" is {error.value!r}" if error.value is not None else " is null"
        return f"{full_name}{got}, expected {_expected(error)}"
    if isinstance(error, MissingMandatoryValue | InterpolationKeyError):
        return without_value(full_name)
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.parent_node is not None:
        known = [str(key) for key in error.parent_node if key not in ("hydra", "_target_")]
        return unknown_setting(full_name, str(error.key), known)
    if isinstance(error, ConfigTypeError):
        return f"{full_name} is a mapping, expected a list"
    return " ".join(str(error).split())


_WORDS = (
    ("not Optional", "a value, not null"),
    ("not a ListConfig", "a list, such as [1, 2]"),
    ("Integer", "an integer"),
    ("subclass of int", "an integer"),
    ("Float", "a number"),
    ("subclass of float", "a number"),
    ("string", "a text"),
    ("subclass of str", "a text"),
    ("bool", "true or false"),
)
"""What OmegaConf says of a type, and what a person would."""


def _expected(error: OmegaConfBaseException) -> str:
    """The type a field wants, in words."""
    text = str(error.msg or "").partition("\n")[0]
    found = [words for sign, words in _WORDS if sign in text]
    return found[0] if found else f"another type ({text})"


def unknown_setting(full_name: str, key: str, known: Sequence[str]) -> str:
    """The sentence for a key that is not among the known ones, with the nearest of them."""
    close = get_close_matches(key, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown setting {full_name!r}{hint}; allowed here: {', '.join(sorted(known)) or 'nothing'}"


def _missing_config(error: MissingConfigException) -> str:
    wanted = str(error.missing_cfg_file or "")
    group, _, name = wanted.rpartition("/")
    options = [option for option in error.options or [] if option]
    if not group:
        return f"no config named {wanted!r}"
    close = get_close_matches(name, options, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {group} {name!r}{hint}; allowed: {', '.join(sorted(options)) or 'none'}"


def _unreadable(error: OverrideParseException) -> str:
    reasons = [line.strip() for line in str(error).splitlines() if re.search(r"\b(missing|input|recognition)\b", line)]
    reason = reasons[0].partition(" expecting {")[0] if reasons else "it does not parse"
    hint = "expected KEY=VALUE, with a value of unusual characters in quotes: KEY='\"VALUE\"'"
    return f"cannot read the override {error.override!r}: {reason}; {hint}"


def without_value(full_name: str) -> str:
    """The sentence for a setting that has to be given and was not."""
    return f"{full_name} has no value; set it with {full_name}=..."
