"""`smolagents-memory demo`: an agent watches a service, is killed, goes on elsewhere, and later remembers."""

from __future__ import annotations

from pathlib import Path


MODES = ("full", "replay", "inject", "step_by_step")


def run_demo(folder: Path, *, mode: str = "full", model: str | None = None, api_base: str | None = None) -> int:
    """Play the demo; returns the exit code. Killed at any moment and run again, it goes on where it was.

    Args:
        folder: Where to keep what the demo saves: in a folder `demo` inside it, which is the demo's own.
        mode: "full" plays all of it; "replay" shows the saved run again, "inject" changes its memory in the middle
            and goes on, "step_by_step" runs an agent one step at a time. These play Monday first if nothing is saved.
        model: A real model, such as "ollama_chat/llama3.2" (extra `litellm`), or the name of one at `api_base`.
        api_base: The URL of a server that speaks OpenAI's protocol (extra `openai`), or of Ollama.
    """
    from smolagents_memory.demo.play import Play

    if mode not in MODES:
        raise ValueError(f"mode={mode!r} is none of {', '.join(MODES)}")
    return Play(Path(folder) / "demo", model, api_base).run(mode)
