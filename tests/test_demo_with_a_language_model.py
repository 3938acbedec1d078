"""The demo driven by a real small language model over HTTP: the shape of its calls is forced, its words are its own.

The model is far too small to drive an agent unaided, so a proxy on loopback tells the server by a grammar which call
comes next. What is asserted is memory, never the quality of the words.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
from smolagents.models import ChatMessage, MessageRole
from test_demo import played, session

from smolagents_memory.demo.watcher import next_move, seen_since_the_task


def forced(asked: dict) -> dict:
    """The request, with the grammar of the next call."""
    messages = [ChatMessage(role=MessageRole(each["role"]), content=each["content"]) for each in asked["messages"]]
    body = json.dumps(f"\n<code>\n{next_move(seen_since_the_task(messages))[1]}\n</code>")
    grammar = f'root ::= "Thought: " [a-zA-Z ,]{{8,40}} "." {body}'
    return {"model": "smollm2", "messages": asked["messages"], "max_tokens": 200, "temperature": 0, "grammar": grammar}


@pytest.fixture
def proxy(served):
    """The address of the model's server, with the calls' shape forced; and the requests that came."""
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            request = Request(f"{served}/v1/chat/completions", json.dumps(forced(asked[-1])).encode())
            request.add_header("Content-Type", "application/json")
            with urlopen(request, timeout=120) as answer:
                data = answer.read()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_real_model_is_killed_resumed_and_remembers(proxy, tmp_path):
    address, asked = proxy
    said = played(tmp_path, model="smollm2", api_base=address, patience=1500)
    assert "the agent died while it read the log" in said
    assert "none lost, none taken twice" in said
    monday, thursday = session(tmp_path, "monday"), session(tmp_path, "thursday")
    assert monday.runs()[0].answer == "Too few connections: set_pool(size=32) repaired it (7 checks)."
    assert thursday.runs()[0].steps < monday.runs()[0].steps
    thoughts = {step.model_output.split("<code>")[0] for step in monday.steps()[1:]}
    assert all(thought.startswith("Thought: ") for thought in thoughts)
    assert not any(part["type"] == "image_url" for each in asked for part in parts(each))  # it cannot read pictures


def parts(asked: dict) -> list[dict]:
    return [
        part for message in asked["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
