"""The demo's agent: it watches the shop, finds out why it fails, and repairs it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from io import BytesIO
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from PIL import Image
from smolagents import CodeAgent, Model, Tool
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory import (
    AlertOnFailures,
    CaptureScreenshot,
    DropInputMessages,
    MissingExtraError,
    TimestampObservations,
    everywhere,
)
from smolagents_memory.testing import ScriptedModel, code


TASK = (
    "Watch the shop's checkout with check_health(). When it answers 503, look with recall() what helped last time. "
    "If nothing is known, check until an alert tells you that it is no accident, then find the cause with "
    "restart() and read_log(), and repair it with set_pool(). When it answers 200 again, say what the cause was."
)
ANSWER = "Too few connections: set_pool(size=32) repaired it ({len(answers)} checks)."
KEEP_PICTURES = 2
MAX_STEPS = 24


class _ShopTool(Tool):
    output_type = "string"
    inputs: dict[str, Any] = {}  # noqa: RUF012 — smolagents wants a plain class attribute

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def ask(self, path: str) -> tuple[int | None, str]:
        """The status and text of a page of the shop; no status when nobody answers."""
        try:
            with urlopen(self.url + path, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, OSError) as error:
            return None, f"no answer: {getattr(error, 'reason', error)}"


class CheckHealth(_ShopTool):
    """One request to the shop."""

    name = "check_health"
    description = "Asks the shop's checkout whether it is well. Returns the status of the answer."

    def forward(self) -> str:
        """The status."""
        status, text = self.ask("/health")
        return f"GET /health: {status} {text}" if status else f"GET /health: {text}"


class ReadLog(_ShopTool):
    """The shop's log."""

    name = "read_log"
    description = "Returns the last lines of the shop's log."

    def forward(self) -> str:
        """The lines."""
        return self.ask("/log")[1]


class Restart(_ShopTool):
    """A restart."""

    name = "restart"
    description = "Restarts the shop."

    def forward(self) -> str:
        """What came of it."""
        return self.ask("/restart")[1]


class SetPool(_ShopTool):
    """A setting of the shop."""

    name = "set_pool"
    description = "Sets how many connections to its database the shop may hold."
    inputs = {"size": {"type": "integer", "description": "How many connections."}}  # noqa: RUF012

    def forward(self, size: int) -> str:
        """What came of it."""
        status, text = self.ask(f"/pool?size={size}")
        if status == 400:
            raise ValueError(text)
        return text


def watcher(url: str, model: Model, *, pictures: bool, more_tools: Iterable[Tool] = ()) -> CodeAgent:
    """An agent that watches the shop at `url`."""
    camera = [CaptureScreenshot(lambda: picture_of(url), keep_last=KEEP_PICTURES)] if pictures else []
    shape = [AlertOnFailures(predicate=answered_5xx), TimestampObservations(format="%H:%M:%S"), *camera]
    return CodeAgent(
        tools=[CheckHealth(url), ReadLog(url), Restart(url), SetPool(url), *more_tools],
        model=model,
        step_callbacks=everywhere(*shape, DropInputMessages()),
        max_steps=MAX_STEPS,
        verbosity_level=-1,  # the demo shows a line a step instead
    )


def answered_5xx(step: Any) -> bool:
    """Whether the shop failed in a step; what memory says of earlier failures does not count."""
    return "GET /health: 5" in _RECALLED.sub("", getattr(step, "observations", None) or "")


def picture_of(url: str) -> Image.Image:
    """A picture of the shop's page."""
    with urlopen(f"{url}/picture.png", timeout=30) as answer:
        return Image.open(BytesIO(answer.read())).convert("RGB")


def model_for(model: str | None, api_base: str | None) -> Model:
    """The scripted model, or a real one.

    >>> model_for(None, None).model_id
    'scripted, offline'
    """
    if model is None:
        return ScriptedModel(itertools.repeat(decide), model_id="scripted, offline", record="none")
    if model.startswith("ollama"):
        return _made("LiteLLMModel", "litellm", model_id=model, api_base=api_base, num_ctx=8192)
    if api_base is None:
        return _made("LiteLLMModel", "litellm", model_id=model)
    return _made("OpenAIServerModel", "openai", model_id=model, api_base=api_base, api_key="none")


def _made(name: str, package: str, **options: Any) -> Model:
    import importlib.util
    import os

    import smolagents

    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(f"--model {options['model_id']}", package)
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else litellm fetches a price list when imported
    if "api_key" in options:
        options["api_key"] = os.environ.get("OPENAI_API_KEY", options["api_key"])
    return getattr(smolagents, name)(**options)


# -- what the scripted model does: it reads what the agent saw, and knows nothing else -------------------------------


def decide(messages: list[ChatMessage]) -> str:
    """The next piece of code, from what was seen since the last task. The same rules on every day."""
    thought, source = next_move(seen_since_the_task(messages))
    return code(source, thought)


def seen_since_the_task(messages: Iterable[ChatMessage]) -> str:
    """All that came back from tools since the last task."""
    texts = [_text(message.content) for message in messages if message.role in (MessageRole.USER, _RESPONSE)]
    last = max((number for number, text in enumerate(texts) if "New task:" in text), default=0)
    return "\n".join(texts[last:])


_RESPONSE = MessageRole.TOOL_RESPONSE
_RECALLED = re.compile(r"\[recalled from memory.*?\[end of recalled notes\]", re.DOTALL)
_STATUS = re.compile(r"GET /health: (\d{3})")
_REPAIRED = re.compile(r"Outcome: .*set_pool\(size=(\d+)\) repaired it")
_CHECK = "answers.append(check_health())\nprint(answers[-1])"


def next_move(seen: str) -> tuple[str, str]:
    """A thought and a piece of code.

    >>> print(next_move("New task: …")[1])
    answers = []
    answers.append(check_health())
    print(answers[-1])
    >>> next_move("GET /health: 503")[1]
    "print(recall('the shop answers 503'))"
    """
    if "one line for the log book" in seen:
        return "I was asked for a line.", "final_answer('Checkout down, pool of 5 connections exhausted; now 32.')"
    statuses, recalled = _STATUS.findall(seen), "\n".join(_RECALLED.findall(seen))
    own = _RECALLED.sub("", seen)
    repaired = own.rfind("the pool has ")
    if repaired >= 0 and "GET /health: 200" in own[repaired:]:
        return "It answers again.", f"final_answer(f'{ANSWER}')"
    if not statuses:
        return "I look how the shop is, and keep the answers.", f"answers = []\n{_CHECK}"
    if statuses[-1] == "200":
        return "I look again.", _CHECK
    if not recalled and "Nothing was found in memory" not in own and "a colleague: " not in own:
        return "Has this happened before?", "print(recall('the shop answers 503'))"
    advised = _REPAIRED.findall(recalled) or re.findall(r"a colleague: .*?(\d+) connections", own)
    if advised:
        return "I know what helped.", f"print(set_pool(size={advised[-1]}))\n{_CHECK}"
    if "[ALERT]" not in own:
        return "I look again.", _CHECK
    if "restarted" not in own:
        return "It is no accident. I restart the shop.", f"print(restart())\n{_CHECK}"
    if "pool exhausted" not in own:
        return "That did not help. I read the log.", "print(read_log())"
    if "the pool takes" not in own:
        return "The pool is too small. I make it a little larger.", "print(set_pool(size=8))"
    return "Then the next size that is certainly enough.", f"print(set_pool(size=32))\n{_CHECK}"


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part.get("text", "") if isinstance(part, dict) else json.dumps(part) for part in content)
