import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.collection import build_collection, collection_sha256, read_collection, write_collection
from eval.collection.manifest import manifest_bytes, read_manifest
from eval.errors import CollectionError, OutputError
from eval.loaders.saved import load_saved
from eval.schema import MESSAGES, QRELS, QUERIES

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MANIFEST = {"name": "작은 모음 🧪", "version": "1", "licence": "CC0", "language": "ko", "source": "this test"}
TEXTS = ("김치를 샀어 🥬", "좋아!", "nul \0 and \u2028 and ​zero-width", 'quote " \\ ', "")


def tables(texts=TEXTS):
    messages = [
        {"message_id": f"m{n}", "resource_id": "r1", "thread_id": f"t{n % 2}", "position": n // 2, "role": "user"}
        | {"text": text, "created_at": NOON + timedelta(minutes=n), "name": None if n % 2 else "민지"}
        for n, text in enumerate(texts)
    ]
    query = {"resource_id": "r1", "text": "뭘 샀지?", "type": "fact", "cluster_id": "r1", "split": "dev"}
    return {
        "messages": pl.DataFrame(messages, schema=MESSAGES),
        "queries": pl.DataFrame(
            [
                query | {"query_id": "q2", "answerable": False, "thread_id": "t0"},
                query | {"query_id": "q1", "answerable": True, "asked_at": NOON + timedelta(days=1)},
            ],
            schema=QUERIES,
        ),
        "qrels": pl.DataFrame([{"query_id": "q1", "message_id": "m0", "relevance": 2}], schema=QRELS),
    }


def collection(**manifest):
    return build_collection(**tables(), manifest=MANIFEST | manifest)


@pytest.fixture
def folder(tmp_path):
    write_collection(collection(), tmp_path / "c")
    return tmp_path / "c"


def assert_equal(left, right):
    assert left.messages.equals(right.messages)
    assert left.queries.equals(right.queries)
    assert left.qrels.equals(right.qrels)
    assert left.manifest == right.manifest


def edit(folder, table, change=lambda frame: frame):
    path = folder / f"{table}.parquet"
    # Other settings than the project's, so that the bytes differ even where the rows do not.
    change(pl.read_parquet(path)).write_parquet(path, compression="uncompressed", row_group_size=2, statistics=False)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5), notes=st.lists(st.text(max_size=10), max_size=3))
def test_any_unicode_text_survives_writing_and_reading(texts, notes, tmp_path_factory):
    written = build_collection(**tables(texts), manifest=MANIFEST | {"notes": notes})
    folder = tmp_path_factory.mktemp("any") / "c"
    write_collection(written, folder)
    assert_equal(read_collection(folder), written)


def test_a_folder_holds_three_tables_and_a_manifest_and_nothing_else(folder):
    names = ["manifest.yaml", "messages.parquet", "qrels.parquet", "queries.parquet"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert [path.name for path in folder.parent.iterdir()] == ["c"]


def test_the_loader_reads_what_was_written(folder):
    assert_equal(load_saved(str(folder)), collection())


@pytest.mark.parametrize("name", ["a[1]*?", "key=value", "모음 🎉", "s3:", "#x %20"])
def test_a_folder_of_any_name_is_written_and_read(tmp_path, name):
    write_collection(collection(), tmp_path / name / "c")
    assert_equal(read_collection(tmp_path / name / "c"), collection())


def test_the_manifest_has_the_counts(folder):
    counts = {"messages": 5, "queries": 2, "qrels": 1, "threads": 2, "resources": 1, "answerable": 1}
    assert yaml.safe_load((folder / "manifest.yaml").read_bytes())["counts"] == counts


def test_the_manifest_keeps_parameters_and_notes():
    built = collection(notes=["one repaired"], generator={"seed": 7, "parameters": {"share": 0.5, "empty": None}})
    assert built.manifest["notes"] == ["one repaired"]
    assert built.manifest["generator"] == {"seed": 7, "parameters": {"share": 0.5, "empty": None}}


@given(text=st.text(st.sampled_from("a: -#'\"\n\r\t\0\x85\u2028\ufeff\ufffe\x1b한😀"), max_size=6))
@settings(deadline=None)
def test_any_text_in_a_manifest_file_comes_back_as_it_was(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("manifest") / "manifest.yaml"
    path.write_bytes(manifest_bytes({"notes": [text], text: 1}, {}))
    assert read_manifest(path).manifest == {"notes": [text], text: 1}


def test_a_manifest_without_any_key_reports_them_all(folder):
    (folder / "manifest.yaml").write_text("{}")
    with pytest.raises(CollectionError) as caught:
        read_collection(folder)
    assert len(caught.value.faults) == len(("format_version", "notes", *MANIFEST))


def test_a_list_that_occurs_twice_in_a_manifest_can_be_read_back(tmp_path):
    shared = [1, 2]
    write_collection(collection(a=shared, b=shared), tmp_path / "c")
    assert read_collection(tmp_path / "c").manifest["b"] == [1, 2]


def test_rows_are_sorted_whatever_the_order_given():
    given = {name: frame.sample(fraction=1.0, shuffle=True, seed=3) for name, frame in tables().items()}
    built = build_collection(**given, manifest=MANIFEST)
    assert built.messages["message_id"].to_list() == ["m0", "m2", "m4", "m1", "m3"]
    assert built.queries["query_id"].to_list() == ["q1", "q2"]


def test_the_sha256_is_that_of_the_canonical_lines():
    # The definition, by hand: ids sort, keys sort, no spaces, microseconds since 1970 (2024-05-01 12:00 UTC is
    # 1,714,564,800 s), text unescaped.
    lines = [
        "messages",
        '{"created_at":1714564800000000,"message_id":"m0","name":"민지","parts":null,"position":0,'
        '"resource_id":"r1","role":"user","text":"안녕 😀","thread_id":"t0"}',
        "queries",
        '{"answerable":true,"asked_at":1714651200000000,"cluster_id":"r1","query_id":"q1","resource_id":"r1",'
        '"split":"dev","text":"뭘 샀지?","thread_id":null,"type":"fact"}',
        '{"answerable":false,"asked_at":null,"cluster_id":"r1","query_id":"q2","resource_id":"r1",'
        '"split":"dev","text":"뭘 샀지?","thread_id":"t0","type":"fact"}',
        "qrels",
        '{"message_id":"m0","query_id":"q1","relevance":2}',
    ]
    expected = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert collection_sha256(**tables(["안녕 😀"])) == expected


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_sha256_does_not_depend_on_the_order_of_rows_or_columns(seed):
    order = random.Random(seed)
    shuffled = {}
    for name, frame in tables().items():
        columns = order.sample(frame.columns, len(frame.columns))
        shuffled[name] = frame.sample(fraction=1.0, shuffle=True, seed=seed).select(columns)
    assert collection_sha256(**shuffled) == collection_sha256(**tables())


OTHER = {pl.String: "other", pl.Int32: 99, pl.Int8: 9, pl.Boolean: None, pl.Datetime: NOON - timedelta(days=9)}
CELLS = [(table, column) for table, frame in tables().items() for column in frame.columns]


@pytest.mark.parametrize(("table", "column"), CELLS)
def test_the_sha256_depends_on_every_column(table, column):
    changed = tables()
    dtype = changed[table].schema[column]
    other = pl.lit(OTHER[dtype.base_type()], dtype=dtype)
    first = pl.int_range(pl.len()) == 0
    changed[table] = changed[table].with_columns(pl.when(first).then(other).otherwise(pl.col(column)).alias(column))
    assert collection_sha256(**changed) != collection_sha256(**tables())


@pytest.mark.slow
def test_another_parquet_writer_makes_no_difference(folder):
    before = (folder / "messages.parquet").read_bytes()
    edit(folder, "messages")
    assert (folder / "messages.parquet").read_bytes() != before
    assert_equal(read_collection(folder), collection())


def test_columns_are_cast_where_nothing_is_lost():
    given = tables()
    given["messages"] = given["messages"].with_columns(
        pl.col("position").cast(pl.Int64),
        pl.col("created_at").dt.cast_time_unit("ms"),
        pl.col("role").cast(pl.Categorical),
        pl.lit(None).alias("parts"),
    )
    assert_equal(build_collection(**given, manifest=MANIFEST), collection())


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (pl.col("position").cast(pl.Int64) + 2**40, "messages.position is 'Int64', expected Int32"),
        (pl.col("position").cast(pl.Float64), "messages.position is 'Float64', expected Int32"),
        (pl.col("created_at").dt.replace_time_zone(None), "messages.created_at has times without a zone, expected UTC"),
        (
            pl.col("created_at").dt.cast_time_unit("ns").dt.offset_by("1ns"),
            "messages.created_at is \"Datetime(time_unit='ns', time_zone='UTC')\"",
        ),
    ],
    ids=["too large", "fractions", "no zone", "nanoseconds"],
)
def test_columns_that_would_lose_something_are_faults(column, fault):
    given = tables()
    given["messages"] = given["messages"].with_columns(column)
    with pytest.raises(CollectionError) as caught:
        build_collection(**given, manifest=MANIFEST)
    assert any(found.startswith(fault) for found in caught.value.faults)


@pytest.mark.parametrize("key", sorted(MANIFEST))
@pytest.mark.parametrize("value", [None, "", "  ", 1, 2.0, ["x"]])
def test_a_manifest_needs_each_of_its_texts(key, value):
    with pytest.raises(CollectionError, match=rf"manifest: {key} is .*, expected a text that is not empty"):
        collection(**{key: value})


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ({"notes": "one"}, "notes is 'one', expected a list of texts"),
        ({"seed": np.int64(3)}, r"'seed' is '3' \(int64\), expected text, finite numbers"),
        ({"a": {"b": [NOON]}}, r"'a.b\[0\]' is '2024-05-01 12:00:00\+00:00' \(datetime\)"),
        ({"notes": ["cut \ud83d"]}, r"'notes\[0\]' holds half of a surrogate pair"),
        ({"a": float("nan")}, r"'a' is 'nan' \(float\), expected text, finite numbers"),
        ({"a": {1: 2}}, r"the key '1' \(int\) is not a text"),
    ],
)
def test_a_manifest_holds_only_what_can_be_read_back(extra, fault):
    with pytest.raises(CollectionError, match=fault):
        collection(**extra)


def test_faults_of_tables_and_manifest_are_reported_together():
    given = tables()
    given["qrels"] = given["qrels"].with_columns(message_id=pl.lit("m9"))
    with pytest.raises(CollectionError) as caught:
        build_collection(**given, manifest={"name": "x"})
    assert len(caught.value.faults) == 1 + len(MANIFEST) - 1


def test_the_same_content_again_is_left_as_it_is(folder):
    before = [path.stat() for path in sorted(folder.iterdir())]
    assert write_collection(collection(), folder) is False
    assert [path.stat().st_mtime_ns for path in sorted(folder.iterdir())] == [stat.st_mtime_ns for stat in before]


def test_another_collection_is_never_overwritten(folder):
    other = build_collection(**tables(["다른 말"]), manifest=MANIFEST)
    with pytest.raises(OutputError, match="it holds another collection"):
        write_collection(other, folder)
    assert_equal(read_collection(folder), collection())


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(OutputError, match="not empty"):
        write_collection(collection(), tmp_path)


def test_a_damaged_collection_is_not_taken_for_the_same(folder):
    (folder / "qrels.parquet").unlink()
    with pytest.raises(OutputError, match="it holds a damaged collection"):
        write_collection(collection(), folder)


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_collection(collection(), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_tables_that_are_not_those_of_the_manifest_are_not_written(tmp_path):
    stale = type(collection())(**tables(["다른 말"]), manifest=collection().manifest)
    with pytest.raises(CollectionError, match="sha256 is"):
        write_collection(stale, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_missing_folder_is_one_clear_error(tmp_path):
    with pytest.raises(CollectionError, match=r"'.*/nowhere': cannot be read: No such file or directory; expected a"):
        read_collection(tmp_path / "nowhere")


def test_a_file_in_place_of_the_folder_is_one_clear_error(folder):
    with pytest.raises(CollectionError, match="is a file; expected a folder with messages"):
        read_collection(folder / "manifest.yaml")


@pytest.mark.parametrize("path", ["nul\0", "x" * 300])
def test_a_path_that_cannot_exist_is_one_clear_error(path):
    with pytest.raises(CollectionError, match="cannot be read"):
        load_saved(path)


def test_every_missing_file_is_reported(tmp_path):
    with pytest.raises(CollectionError) as caught:
        read_collection(tmp_path)
    files = ("manifest.yaml", "messages.parquet", "queries.parquet", "qrels.parquet")
    assert caught.value.faults == tuple(f"{name} cannot be read: No such file or directory" for name in files)


def damage_first_half(content):
    return bytes(byte ^ 255 for byte in content[: len(content) // 2]) + content[len(content) // 2 :]


DAMAGES = {
    "random bytes": lambda content: random.Random(5).randbytes(500),
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "another format": lambda content: b"message_id,text\nm1,hello\n",
    "flipped bits": damage_first_half,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_table_is_reported_and_does_not_end_the_process(folder, damage, capfd):
    path = folder / "messages.parquet"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CollectionError, match=r"messages.parquet is not readable as parquet \([0-9]+ bytes\)"):
        read_collection(folder)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_file_named_polars_in_the_current_folder_is_not_run(folder, tmp_path, monkeypatch):
    (tmp_path / "polars.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    edit(folder, "qrels")
    assert_equal(read_collection(folder), collection())


EDITS = {
    "unknown messages": ("qrels", lambda frame: frame.with_columns(message_id=pl.lit("m9")), "qrels name messages"),
    "repeated ids": ("messages", lambda frame: pl.concat([frame, frame]), "messages repeat 5 message_ids: 'm0' 2"),
    "gaps": ("messages", lambda frame: frame.with_columns(pl.col("position") * 2), "positions do not count"),
    "no zone": (
        "messages",
        lambda frame: frame.with_columns(pl.col("created_at").dt.replace_time_zone(None)),
        "messages.created_at has times without a zone",
    ),
    "no queries": ("queries", lambda frame: frame.clear(), "the collection has no queries"),
    "a wide column": (
        "messages",
        lambda frame: frame.with_columns(pl.col("position").cast(pl.Int64)),
        "expected Int32",
    ),
    "other text": ("messages", lambda frame: frame.with_columns(text=pl.lit("x")), "sha256 is '.*', the tables have"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("table", "change", "fault"), EDITS.values(), ids=EDITS)
def test_an_edited_table_is_reported_with_its_faults(folder, table, change, fault):
    edit(folder, table, change)
    with pytest.raises(CollectionError, match=fault):
        read_collection(folder)


@pytest.mark.slow
def test_faults_of_several_files_are_reported_together(folder):
    edit(folder, "queries", lambda frame: frame.with_columns(split=pl.lit("train")))
    edit(folder, "qrels", lambda frame: frame.with_columns(query_id=pl.lit("q9")))
    (folder / "manifest.yaml").unlink()
    with pytest.raises(CollectionError) as caught:
        read_collection(folder)
    beginnings = ("manifest.yaml cannot be read", "qrels name queries", "queries.split is neither")
    assert [fault[:12] for fault in caught.value.faults] == [start[:12] for start in beginnings]


MANIFESTS = {
    "blank": (b"", "holds missing, expected keys with values"),
    "a list": (b"- a", "expected keys with values"),
    "not YAML": (b"a: [", "is not YAML"),
    "binary": (b"\xff\x00\x01", "is not YAML"),
    "code": (b"!!python/object/apply:os.system ['true']", "is not YAML"),
    "deep": (b"[" * 5000, "is not YAML"),
    "no date": (b"a: 2024-99-99", "is not YAML"),
    "no timestamp": (b"a: !!timestamp x", "is not YAML"),
    "endless": (b"a: &a [x, x]\nb: &b [*a, *a]", "an alias"),
}


@pytest.mark.parametrize(("content", "fault"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_of_another_shape_is_one_clear_error(folder, content, fault, monkeypatch):
    # Without checksums each table would be read by another process first, which takes a second.
    monkeypatch.setattr("eval.collection.files._is_parquet", lambda content: True)
    (folder / "manifest.yaml").write_bytes(content)
    with pytest.raises(CollectionError, match=f"manifest.yaml {fault}|manifest.yaml .*{fault}"):
        read_collection(folder)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("format_version", 2, "format_version is '2' .*, expected 1"),
        ("sha256", "0" * 64, "sha256 is '0+', the tables have [0-9a-f]{64}"),
        ("counts", {"messages": 6}, r"counts is .*, the tables have \{'messages': 5"),
        ("name", 7, "name is '7'"),
        ("sha256", None, "sha256 is 'None', the tables have"),
    ],
)
def test_a_manifest_that_says_something_else_is_reported(folder, key, value, fault):
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_bytes()) | {key: value}, allow_unicode=True))
    with pytest.raises(CollectionError, match=fault):
        read_collection(folder)


def test_a_file_without_permission_is_one_clear_error(folder, monkeypatch):
    read = Path.read_bytes

    def refuse(path):
        if path.name == "qrels.parquet":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(CollectionError) as caught:
        read_collection(folder)
    assert caught.value.faults == ("qrels.parquet cannot be read: Permission denied",)
