"""The text that is embedded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.errors import OptionsError
from recall.schema import Message, utc
from recall.template import TextTemplate


def message(text, name=None, role="user"):
    return Message("m1", "t1", "r1", role, text, utc(2024, 5, 31, 23, 59), name=name)


def test_a_message_with_a_speaker_is_name_colon_text():
    assert TextTemplate().render(message("see you at six", "Ana")) == "Ana: see you at six"


@pytest.mark.parametrize("name", [None, "", "  "])
def test_a_message_without_a_speaker_is_its_bare_text(name):
    assert TextTemplate().render(message("see you at six", name)) == "see you at six"


def test_korean_and_emoji_pass_through_unchanged():
    assert TextTemplate().render(message("여섯 시에 봐요 🙂", "민지")) == "민지: 여섯 시에 봐요 🙂"


def test_role_and_utc_day_can_be_part_of_the_text():
    template = TextTemplate(named="[{date}] {role} {name}: {text}", bare="[{date}] {role}: {text}")
    assert template.render(message("hi", "Ana")) == "[2024-05-31] user Ana: hi"
    assert template.render(message("hi")) == "[2024-05-31] user: hi"


def test_doubled_braces_in_a_template_stand_for_one_brace():
    assert TextTemplate(bare="{{{text}}}").render(message("hi")) == "{hi}"


@given(text=st.text(), name=st.text(min_size=1).filter(str.strip))
def test_whatever_a_message_says_is_never_interpreted(text, name):
    assert TextTemplate().render(message(text, name)) == name + ": " + text


@pytest.mark.parametrize("text", ["{name}", "{", "}}", "{0}", "{text.__class__}", "%s"])
def test_braces_in_a_message_stay_as_they_are(text):
    assert TextTemplate().render(message(text)) == text


@pytest.mark.parametrize(
    "template",
    ["{speaker}: {text}", "{text!r}", "{text:>9}", "{text.upper}", "{0} {text}", "{} {text}", "{text", "text", "", 7],
)
def test_a_template_that_cannot_be_used_is_refused_with_the_placeholders_that_can(template):
    with pytest.raises(OptionsError, match="name, text, role, date") as raised:
        TextTemplate(named=template)
    assert raised.value.field == "named"


def test_the_bare_template_cannot_use_a_name_that_is_not_there():
    with pytest.raises(OptionsError, match="text, role, date") as raised:
        TextTemplate(bare="{name}: {text}")
    assert raised.value.field == "bare"
