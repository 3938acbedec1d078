"""Embedders of others, adapted: Chroma's functions, sentence-transformers, OpenAI-compatible servers, any function."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from smolagents_memory._errors import EmbeddingError, MissingExtraError


class CallableEmbedder:
    """Any function of a list of texts that gives a row of numbers for each.

    >>> embedder = CallableEmbedder(lambda texts: [[len(text), 1.0] for text in texts], name="lengths")
    >>> embedder.embed_query("four")
    [4, 1.0]
    """

    def __init__(self, function: Callable[[list[str]], Any], *, name: str | None = None) -> None:
        kind = type(function) if type(function).__name__ not in ("function", "method") else function
        qualified = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', repr(kind))}"
        self.name = name or qualified
        self._function = function

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """One row a text."""
        return self._function(list(texts))

    def embed_query(self, text: str) -> Any:
        """The row of one text."""
        return self._function([text])[0]


class ChromaEmbedder(CallableEmbedder):
    """An embedding function of Chroma's, as its collections take them."""

    def __init__(self, function: Any, *, name: str | None = None) -> None:
        given = getattr(function, "name", None)
        super().__init__(function, name=name or f"chroma:{given() if callable(given) else type(function).__name__}")


class ChromaDefaultEmbedder(CallableEmbedder):
    """Chroma's own default model, fetched when this is built if it is not in Chroma's cache yet.

    The file is all-MiniLM-L6-v2, as in the extra `offline`: the vectors of the two go together.
    """

    dimensions = 384

    def __init__(self, timeout: float = 120.0) -> None:
        super().__init__(_fetched(timeout), name="all-MiniLM-L6-v2")


def _fetched(timeout: float) -> Any:
    import threading

    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    function = ONNXMiniLM_L6_V2()
    outcome: list[BaseException | None] = []

    def fetch() -> None:
        try:
            function(["ready"])
            outcome.append(None)
        except BaseException as error:  # noqa: BLE001 — it is raised again in the thread that waits
            outcome.append(error)

    thread = threading.Thread(target=fetch, daemon=True, name="fetch-embedding-model")
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise EmbeddingError(f"Chroma's default model could not be fetched within {timeout:g} s")
    if outcome[0] is not None:
        raise EmbeddingError(f"Chroma's default model could not be fetched: {outcome[0]}") from outcome[0]
    return function


class SentenceTransformerEmbedder:
    """A model of the library sentence-transformers (torch is needed; a name may be downloaded by that library)."""

    def __init__(self, model: Any = "all-MiniLM-L6-v2") -> None:
        if isinstance(model, (str, Path)):
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise MissingExtraError("SentenceTransformerEmbedder", "sentence-transformers") from error
            self.name = f"sentence-transformers:{model}"
            model = SentenceTransformer(str(model))
        else:
            card = getattr(getattr(model, "model_card_data", None), "base_model", None)
            self.name = f"sentence-transformers:{card or type(model).__name__}"
        self._model = model

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """One row a text."""
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def embed_query(self, text: str) -> Any:
        """The row of one text."""
        return self.embed_documents([text])[0]


class OpenAIEmbedder:
    """A server that speaks OpenAI's /embeddings: OpenAI, Ollama, vLLM, TEI, LM Studio, llama.cpp."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        timeout: float = 30.0,
        batch: int = 128,
    ) -> None:
        self.name = f"openai:{model}"
        self._model, self._url, self._key = model, base_url.rstrip("/") + "/embeddings", api_key
        self._timeout, self._batch = timeout, batch

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r}, base_url={self._url.removesuffix('/embeddings')!r})"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One row a text."""
        rows: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            rows.extend(self._asked([text or " " for text in texts[start : start + self._batch]]))
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The row of one text."""
        return self.embed_documents([text])[0]

    def _asked(self, texts: list[str]) -> list[list[float]]:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps({"model": self._model, "input": texts}).encode()
        request = urllib.request.Request(self._url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                data = json.load(answer)["data"]
            return [row["embedding"] for row in sorted(data, key=lambda row: row.get("index", 0))]
        except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise EmbeddingError(f"{self!r} gave no vectors: {error}") from error
