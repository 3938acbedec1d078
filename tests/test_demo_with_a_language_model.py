"""The demo driven by a real small language model over HTTP: the shape of its calls is forced, its words are its own.

The model is far too small to drive an agent unaided, so a proxy on loopback tells the server by a grammar which call
comes next. What is asserted is memory, never the quality of the words.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
from smolagents.models import ChatMessage, MessageRole
from test_demo import played, session

from smolagents_memory.demo.watcher import next_move, seen_since_the_task


def forced(asked: dict) -> dict:
    """The request, with the grammar of the next call."""
    grammar = f'root ::= "Thought: " [a-zA-Z ,]{{8,40}} "." {json.dumps(next_code(asked))}'
    return {"model": "smollm2", "messages": asked["messages"], "max_tokens": 200, "temperature": 0, "grammar": grammar}


@contextmanager
def answering(answer):
    """The address of a server on loopback that answers each JSON with another one, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            data = json.dumps(answer(asked[-1])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def next_code(asked: dict) -> str:
    """What the demo's rules say to a request."""
    messages = [ChatMessage(role=MessageRole(each["role"]), content=each["content"]) for each in asked["messages"]]
    return f"\n<code>\n{next_move(seen_since_the_task(messages))[1]}\n</code>"


@pytest.mark.slow
def test_a_real_model_is_killed_resumed_and_remembers(served, tmp_path):
    def answer(asked):
        request = Request(f"{served}/v1/chat/completions", json.dumps(forced(asked)).encode())
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    with answering(answer) as (address, asked):
        said = played(tmp_path, model="smollm2", api_base=f"{address}/v1", patience=1500)
    assert_well(tmp_path, said)
    thoughts = {step.model_output.split("<code>")[0] for step in session(tmp_path, "monday").steps()[1:]}
    assert all(thought.startswith("Thought: ") for thought in thoughts)
    assert not any(part["type"] == "image_url" for each in asked for part in parts(each))  # it cannot read pictures


@pytest.mark.slow
def test_a_model_of_ollama_is_reached_through_litellm(tmp_path):
    """A server that speaks Ollama's protocol."""
    pytest.importorskip("litellm", reason="pip install 'smolagents-memory[litellm]'")

    def answer(asked):
        said = {"role": "assistant", "content": f"Thought: as ever.{next_code(asked)}"}
        counts = {"prompt_eval_count": 100, "eval_count": 20}
        return {"model": "llama3.2", "created_at": "2026-01-01T00:00:00Z", "message": said, "done": True, **counts}

    with answering(answer) as (address, asked):
        said = played(tmp_path, model="ollama_chat/llama3.2", api_base=address, patience=300)
    assert_well(tmp_path, said)
    assert asked[-1]["model"] == "llama3.2"
    assert session(tmp_path, "monday").runs()[0].input_tokens == 11 * 100


def assert_well(folder, said: str) -> None:
    """Killed, resumed, remembered."""
    assert "the agent died while it read the log" in said
    assert "none lost, none taken twice" in said
    monday, thursday = session(folder, "monday"), session(folder, "thursday")
    assert monday.runs()[0].answer == "Too few connections: set_pool(size=32) repaired it (7 checks)."
    assert thursday.runs()[0].steps < monday.runs()[0].steps


def parts(asked: dict) -> list[dict]:
    contents = [message["content"] for message in asked["messages"]]
    return [part for content in contents if isinstance(content, list) for part in content]
