"""Stems, query words, filters, the default embedder, and embedders of others."""

from __future__ import annotations

import gc
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy
import pytest
from forking import forked
from hypothesis import given
from hypothesis import strategies as st

from smolagents_memory import CallableEmbedder, ChromaEmbedder, EmbeddingError, MiniLMEmbedder, OpenAIEmbedder
from smolagents_memory.search import minilm as minilm_module
from smolagents_memory.search.cores import usable_cores
from smolagents_memory.search.embedding import Vectors, resolved_embedder
from smolagents_memory.search.languages import stem
from smolagents_memory.search.lexical import Lexicon
from smolagents_memory.search.parts import query_sentences, split_by_characters
from smolagents_memory.search.words import query_words, words


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"),
        ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"),
        ("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("vietnamization", "vietnam"),
        ("triplicate", "triplic"), ("formalize", "formal"), ("hopeful", "hope"), ("revival", "reviv"),
        ("adoption", "adopt"), ("probate", "probat"), ("controll", "control"), ("roll", "roll"), ("cease", "ceas"),
    ],
)  # fmt: skip
def test_the_stemmer_does_what_porters_paper_says(word, expected):
    """Examples of each of its steps."""
    assert stem(word) == expected


@given(st.text())
def test_any_text_gives_words_that_databases_take(text):
    """No spaces, no surrogates, no NUL; a query finds its own text."""
    found = words(text)
    assert all(word and not word.isspace() and " " not in word and "\0" not in word for word in found)
    " ".join(found).encode("utf-8")
    assert all(set(found) & set(stems.split()) for stems in query_words(text))


def test_names_of_code_are_found_by_their_parts():
    """camelCase and snake_case; accents do not matter; scripts without spaces go by pairs."""
    assert {"user", "name"} <= set(words("getUserName"))
    assert {"user", "name"} <= set(words("get_user_name"))
    assert words("Café") == words("cafe")
    assert set(words("数据库")) & set(query_words("数据"))


def test_rare_words_weigh_more_and_long_texts_less():
    """BM25 as it is known."""
    lexicon = Lexicon(texts=100, average=10, counts={"rare": 1, "common": 60})
    weights = lexicon.weights({"rare": 1.0, "common": 1.0, "absent": 1.0})
    assert set(weights) == {"rare", "common"}
    assert lexicon.score("rare x", 2, weights) > lexicon.score("common x", 2, weights)
    assert lexicon.score("rare x", 2, weights) > lexicon.score("rare " + "x " * 50, 51, weights)


@pytest.fixture(scope="module")
def minilm():
    return MiniLMEmbedder()


def test_the_default_embedder_goes_on_in_a_forked_child():
    """Where the threads of the model that its parent loaded are not: neither using nor freeing it waits for them."""
    embedder = MiniLMEmbedder()
    embedder.embed_query("a cat")
    here = [embedder]

    def in_child():
        assert here[0].embed_query("a cat").shape == (384,)
        here.clear()
        gc.collect()

    del embedder
    assert forked(in_child) == 0
    assert here[0].embed_query("a cat").shape == (384,)


def test_the_default_embedder_gives_unit_vectors_that_know_meaning(minilm):
    """Also for the empty text."""
    rows = minilm.embed_documents(["A kitten naps.", "A cat sleeps.", "The invoice was paid.", ""])
    assert rows.shape == (4, 384)
    assert numpy.allclose(numpy.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.3
    assert minilm.embed_documents([]).shape == (0, 384)
    assert not numpy.isnan(minilm.embed_query("\ud800 \0")).any()


def test_a_text_has_the_same_vector_alone_among_others_and_as_it_was_made_before(minilm):
    """Whatever the batch, and however long the texts beside it: what was made one by one stays comparable."""
    texts = [f"note {n} " + "the harbour is closed on " * (n % 40) for n in range(90)]
    together = minilm.embed_documents(texts)
    session, tokenizer = minilm._load()
    for text, row in list(zip(texts, together, strict=True))[::7]:
        ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int64)
        feed = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        mean = session.run(None, feed)[0][0].mean(axis=0)
        assert row @ (mean / numpy.linalg.norm(mean)) >= 0.9999


def test_a_batch_is_as_many_tokens_as_the_model_reads_at_once():
    """Each text is in one, the short with the short; one that is longer than a batch is one by itself."""
    lengths = [7, 254, 30, 30, 5000, 3, 254, 254, 254, 254] + [20] * 200
    batches = list(minilm_module._batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[each] for each in batch) <= minilm_module.BATCH
    longest = [max(lengths[each] for each in batch) for batch in batches]
    assert longest == sorted(longest)
    assert sum(len(batch) > 1 for batch in batches) == 18  # twelve texts of twenty tokens, or the three of thirty


def test_threads_are_no_more_than_a_container_has_cores_for(tmp_path):
    """Control groups of either version; where they say nothing, what the process may run on."""
    allowed = usable_cores(tmp_path)
    assert 1 <= allowed <= os.cpu_count()
    for told, cores in (("max 100000", allowed), ("100000 100000", 1), ("50000 100000", 1), ("nonsense", allowed)):
        (tmp_path / "cpu.max").write_text(told)
        assert usable_cores(tmp_path) == cores
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    for quota, cores in (("-1", allowed), ("100000", 1)):
        (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
        (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
        assert usable_cores(tmp_path) == cores


def test_a_long_text_is_split_and_nothing_is_cut(minilm):
    """Every word is in a part; each part fits the window; neighbours overlap."""
    text = " ".join(f"word{n}" for n in range(2000))
    parts = minilm.split(text)
    assert len(parts) > 10
    assert {word for part in parts for word in part.split()} >= {f"word{n}" for n in range(0, 2000, 2)}
    joined = set("".join(parts))
    assert joined == set(text)
    assert all(len(minilm._load()[1].encode(part).ids) <= 258 for part in parts)
    assert parts[1].split()[0] in parts[0]
    assert minilm.split("short") == ["short"]


@given(st.text(min_size=1, max_size=5000))
def test_splitting_by_characters_loses_nothing(text):
    """For embedders that do not say how."""
    parts = split_by_characters(text)
    assert parts[0] == text[: len(parts[0])]
    assert parts[-1] == text[-len(parts[-1]) :]
    assert sum(map(len, parts)) >= len(text)


def test_what_gives_no_proper_rows_is_refused():
    """Before anything is written."""
    nan = [float("nan"), 0.0]
    for wrong in (lambda t: [[1.0]], lambda t: "x", lambda t: [["a"]] * len(t), lambda t: [nan] * len(t)):
        with pytest.raises(EmbeddingError):
            Vectors(CallableEmbedder(wrong)).of_documents(["a", "b"])
    with pytest.raises(EmbeddingError, match="no embedder"):
        resolved_embedder(5)


def test_adapters_have_names_that_tell_them_apart():
    """So that vectors of one are not taken for another's."""

    class Function:
        def __call__(self, input):
            return [[1.0, 0.0] for _ in input]

        @staticmethod
        def name():
            return "mine"

    assert Vectors(ChromaEmbedder(Function())).name == "chroma:mine"
    assert Vectors(ChromaEmbedder(Function())).of_query("x")[1].tolist() == [[1.0, 0.0]]
    assert CallableEmbedder(Function()).name != CallableEmbedder(lambda texts: []).name


def test_an_openai_compatible_server_is_asked_in_batches_and_its_failure_is_told():
    """A real server on loopback."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((len(body["input"]), body["model"], self.headers.get("Authorization")))
            data = [{"index": n, "embedding": [len(text), 1]} for n, text in enumerate(body["input"])]
            answer = json.dumps({"data": data[::-1]}).encode()
            self.send_response(200 if body["model"] == "m" else 500)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    embedder = OpenAIEmbedder("m", base_url=url, api_key="k", batch=2)
    assert embedder.embed_documents(["a", "bb", "ccc"]) == [[1, 1], [2, 1], [3, 1]]
    assert asked == [(2, "m", "Bearer k"), (1, "m", "Bearer k")]
    with pytest.raises(EmbeddingError, match="gave no vectors"):
        OpenAIEmbedder("broken", base_url=url).embed_query("x")
    server.shutdown()
    server.server_close()


def test_only_long_queries_are_taken_sentence_by_sentence():
    """At most eight pieces, nothing left out."""
    assert query_sentences("Where is it? I looked everywhere.") == ["Where is it? I looked everywhere."]
    long = " ".join(f"This is sentence number {n} of the text." for n in range(30))
    pieces = query_sentences(long)
    assert len(pieces) <= 8
    assert " ".join(pieces) == long
