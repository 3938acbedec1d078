"""From texts to vectors: the protocol, the default, and an embedder made safe."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from smolagents_memory._brief import brief
from smolagents_memory._errors import EmbeddingError, MissingExtraError
from smolagents_memory._forks import Lock
from smolagents_memory._log import Outage, logger, say_once
from smolagents_memory.search.parts import query_sentences, split_by_characters


_PROBE = "width"  # embedded to see whether an embedder works, and how wide its vectors are
_CACHED = 256  # queries whose vectors are kept
_default: dict[str, Embedder | None] = {}  # loaded once a process
_default_lock = Lock()


@runtime_checkable
class Embedder(Protocol):
    """Two methods. Optional: `name`, under which its vectors are kept apart from others', and `split(text)`."""

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """One row of floats a text."""

    def embed_query(self, text: str) -> Any:
        """The floats of one query."""


def default_embedder() -> Embedder | None:
    """The embedder that works without any download, or else Chroma's; None (said once) where there is neither."""
    with _default_lock:
        if "default" not in _default:
            _default["default"] = _made_default()
        return _default["default"]


def _made_default() -> Embedder | None:
    from smolagents_memory.search.minilm import MiniLMEmbedder

    try:
        return MiniLMEmbedder()
    except MissingExtraError as missing:
        from smolagents_memory.search.embedders import ChromaDefaultEmbedder

        try:
            return ChromaDefaultEmbedder()
        except EmbeddingError as error:
            logger.warning("memories are recalled by their words alone: %s (%s)", missing, error)
            return None


def resolved_embedder(embedder: Any) -> Embedder | None:
    """What a user may pass as `embedder=`: "default", None (words alone), an embedder, or something to adapt."""
    if embedder == "default":
        return default_embedder()
    if embedder is None or isinstance(embedder, Embedder):
        return embedder
    if callable(embedder):
        from smolagents_memory.search.embedders import CallableEmbedder

        return CallableEmbedder(embedder)
    raise EmbeddingError(
        f"{brief(embedder)} is no embedder: pass an object with embed_documents(texts) and embed_query(text), a "
        "function of a list of texts, or None to recall by words alone"
    )


def embedder_name(embedder: Embedder) -> str:
    """Under which name an embedder's vectors are kept."""
    name = getattr(embedder, "name", None)
    if isinstance(name, str) and name:
        return name
    kind = type(embedder)
    model = getattr(embedder, "model_name", None) or getattr(embedder, "model", None)
    return f"{kind.__module__}.{kind.__qualname__}" + (f":{model}" if isinstance(model, str) else "")


class Vectors:
    """An embedder made safe: rows of length 1 and one width, long texts in parts, queries remembered.

    Whatever goes wrong is an EmbeddingError, and `outage` knows of it.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name = embedder_name(embedder)
        self.outage = Outage()
        self.width: int | None = None  # how wide the vectors are, as far as that is known
        self._lock = Lock()
        self._queries: OrderedDict[str, Any] = OrderedDict()
        self.wake()

    @property
    def dimensions(self) -> int:
        """How wide the vectors are."""
        return self.width or len(self._asked(lambda: [self.embedder.embed_query(_PROBE)], 1)[0])

    def use(self, embedder: Embedder) -> None:
        """Another embedder of this name takes over: the newest one is the one that should work."""
        if embedder is not self.embedder:
            self.embedder, self.outage = embedder, Outage()
            with self._lock:
                self._queries.clear()

    def wake(self) -> None:
        """Ask the embedder anew, also how wide its vectors are: for who wants to know now."""
        self.outage.wake()
        self.width = getattr(self.embedder, "dimensions", None)
        with self._lock:
            self._queries.clear()

    def of_documents(self, texts: Sequence[str]) -> list[Any]:
        """For each text a matrix with one row a part. The same part is embedded once."""
        parts = self._guarded(lambda: [self.split(text) for text in texts])
        different = list(dict.fromkeys(part for each in parts for part in each))
        if not different:
            return []
        rows = self._asked(lambda: self.embedder.embed_documents(different), len(different))
        row_of = {part: number for number, part in enumerate(different)}
        return [rows[[row_of[part] for part in each]] for each in parts]

    def of_each(self, texts: Sequence[str]) -> list[Any]:
        """As `of_documents`; a text that is refused by an embedder that works gets zeros, so that words find it."""
        try:
            return self.of_documents(texts)
        except EmbeddingError:
            import numpy

            self.outage.wake()
            self._asked(lambda: [self.embedder.embed_query(_PROBE)], 1)  # raises where it is not the text's fault
            if len(texts) == 1:
                say_once(f"{self.name} cannot embed some texts: until reindex() they are found by words alone")
                return [numpy.zeros((1, self.dimensions), dtype=numpy.float32)]
            half = len(texts) // 2
            return [*self.of_each(texts[:half]), *self.of_each(texts[half:])]

    def of_query(self, query: str) -> tuple[list[str], Any]:
        """The query's sentences if it is a long one, and a matrix: a row for each, then one for the whole."""
        with self._lock:
            if query in self._queries:
                self._queries.move_to_end(query)
                return query_sentences(query), self._queries[query]
        sentences = query_sentences(query)
        texts = [*sentences, query] if len(sentences) > 1 else [query]
        matrix = self._asked(lambda: [self.embedder.embed_query(text) for text in texts], len(texts))
        with self._lock:
            self._queries[query] = matrix
            while len(self._queries) > _CACHED:
                self._queries.popitem(last=False)
        return sentences, matrix

    def split(self, text: str) -> list[str]:
        """The parts of a text that each fit the embedder's window."""
        split: Callable[[str], Sequence[str]] = getattr(self.embedder, "split", split_by_characters)
        return list(dict.fromkeys(split(text))) or [text]  # a part that comes twice finds nothing more

    def went_without(self, error: EmbeddingError) -> None:
        """Say once that memory gets along without vectors."""
        self.outage.say(
            f"{error}. Until it works again recall goes by words, and what is remembered is kept without vectors: it "
            "is embedded at the next opening, or by reindex()"
        )

    # -- inside ------------------------------------------------------------------------------------------------

    def _asked(self, ask: Callable[[], Any], count: int) -> Any:
        return self._guarded(lambda: self._checked(ask(), count))

    def _guarded(self, ask: Callable[[], Any]) -> Any:
        """What the embedder gives; whatever it raises is told as an EmbeddingError."""
        if self.outage.rests:
            raise EmbeddingError(f"{self.name} failed a moment ago ({self.outage.reason}) and is not asked yet")
        begun = time.monotonic()
        try:
            answer = ask()
        except Exception as error:
            self.outage.failed(error, begun)
            if isinstance(error, EmbeddingError):
                raise
            raise EmbeddingError(f"{self.name} failed ({type(error).__name__}: {error})") from error
        self.outage.worked()
        return answer

    def _checked(self, rows: Any, count: int) -> Any:
        import numpy

        try:
            matrix = numpy.asarray(rows, dtype=numpy.float32)
        except (TypeError, ValueError) as error:
            raise EmbeddingError(f"{self.name} gave no rows of numbers ({error})") from error
        given = matrix.shape[1:]
        if len(given) != 1 or len(matrix) != count or not given[0] or self.width not in (None, given[0]):
            raise EmbeddingError(
                f"{self.name} gave an array of shape {matrix.shape} for {count} texts"
                f"{f'; its vectors have {self.width} dimensions' if self.width else ''}"
            )
        if not numpy.isfinite(matrix).all():
            raise EmbeddingError(f"{self.name} gave vectors with values that are no numbers (NaN or infinite)")
        self.width = int(matrix.shape[1])
        lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
        return numpy.ascontiguousarray(matrix / numpy.where(lengths > 0, lengths, 1.0), dtype=numpy.float32)
