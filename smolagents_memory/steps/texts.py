"""The texts and images of chat messages, whatever form their content has, and the messages that a step shows."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from smolagents.memory import MemoryStep, ToolCall
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory.steps.calls import call_parts
from smolagents_memory.steps.kinds import images_of, is_required, kind_of
from smolagents_memory.steps.rendering import text_message


_COMPARED = 8_000  # characters of what came back that are compared with what callbacks left of it
_PIECE = 12
_WORD = re.compile(r"\S+")
CUT = "\n[… {cut} characters cut …]\n"


def content_of(message: Any) -> Any:
    """The content of a ChatMessage, or of one that is a plain dict."""
    return message.get("content") if isinstance(message, dict) else getattr(message, "content", None)


def parts_of(content: Any) -> list[dict[str, Any]]:
    """A message's content as a list of parts, each with a text or an image."""
    if isinstance(content, (list, tuple)):
        return [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content]
    return [] if content is None else [{"type": "text", "text": str(content)}]


def parts_in(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Every part of the messages, in order."""
    try:  # an input is as long as the memory, and nearly always as smolagents makes it
        return [part for message in messages for part in message.content if part.get("type", True)]
    except (AttributeError, TypeError):
        return [part for message in messages for part in parts_of(content_of(message))]


def text_of(content: Any) -> str:
    """The text in a message's content."""
    return content if isinstance(content, str) else read_content(content)[0]


def read_content(content: Any) -> tuple[str, list[Any]]:
    """The text and the images in a message's content."""
    parts = parts_of(content)
    texts = [str(part["text"]) for part in parts if part.get("text") is not None and "image" not in part]
    return "\n".join(texts), [part["image"] for part in parts if "image" in part]


def role_name(role: Any) -> str:
    """A role as plain text, however it was written."""
    return str(getattr(role, "value", role))


def texts_in(step: MemoryStep) -> Iterator[str]:
    """The texts of a step that the model is shown, one by one and without rendering it."""
    kind = kind_of(step)
    if not kind.text:
        yield from (text_of(message.content) for message in shown(step))
        return
    for field in filter(None, (kind.said, kind.text)):
        yield text_of(getattr(step, field, None))
    for call in getattr(step, "tool_calls", None) or ():
        yield str(call_parts(call)[1])
    if (error := getattr(step, "error", None)) is not None:
        yield str(error)


def shown(step: MemoryStep) -> list[ChatMessage]:
    """What the step shows the model, also where it is made by hand and upstream cannot render it."""
    for as_it_is in (True, False):
        try:
            return list((step if as_it_is else _mended(step)).to_messages())
        except NotImplementedError:  # of a class that shows nothing in a prompt: a final answer, which is said
            field = kind_of(step).text
            return [text_message(MessageRole.ASSISTANT, str(getattr(step, field, "")))] if field else []
        except Exception:  # noqa: BLE001 - whatever an odd step's rendering raises; the next shape is tried
            continue
    message = text_message(
        MessageRole.USER, "\n".join(value for value in vars(step).values() if isinstance(value, str))
    )
    message.content.extend({"type": "image", "image": image} for image in images_of(step))
    return [message]


def is_system(step: MemoryStep) -> bool:
    """Whether the step shows the model a system message: one that was added beside the system prompt."""
    role = kind_of(step).role
    if role in ("prompt", "note"):
        return role == "prompt" or any(role_name(message.role) == "system" for message in shown(step))
    return False


def left_of(came: str, now: str, *, cut: bool = False) -> str:
    """What is left of a text that somebody changed: without what was put in, and with what stands in a part's place.

    Of one that was `cut` only its own parts are left: what stands between them is part of what was put in.

    >>> left_of("it opens with 1234 at nine", "[noon] it opens with *** at nine")
    'it opens with *** at nine'
    >>> left_of("it opens with 1234 at nine", "[noon] it ope[… cut …] at nine", cut=True)
    'it … at nine'
    """
    if came in now:
        return came
    came, now = (shorten(text, _COMPARED, " … ")[0] for text in (came, now))
    words, whole = [found.span() for found in _WORD.finditer(now)], set(came.split())
    parts, between, first, at = list[str](), list[str](), 0, 0
    while first <= len(words):
        fits = _fitting(came, now, words, first)
        part = now[words[first][0] : words[first + fits - 1][1]] if fits else ""
        ends = first == len(words)
        if ends or fits > 1 or len(part) >= _PIECE or part in whole:  # a short piece of a word stands in many
            place = len(came) if ends else max(came.find(part, at), came.find(part))
            if came[at:place].strip() and between:
                parts += between if not cut else ["…"] if parts and not ends else []
            parts, between, at = [*parts, part], [], place + len(part)
        else:
            between.append(now[slice(*words[first])])
            fits = 1
        first += fits or 1
    return " ".join(filter(None, parts))


def _fitting(came: str, now: str, words: Sequence[tuple[int, int]], first: int) -> int:
    """How many words from this one on stand in a row in the other text."""

    def stand(count: int) -> bool:
        return now[words[first][0] : words[first + count - 1][1]] in came

    most, beyond = len(words) - first, 1
    while beyond <= most and stand(beyond):
        beyond *= 2
    fits, beyond = beyond // 2, min(beyond, most + 1)
    while beyond - fits > 1:
        tried = (fits + beyond) // 2
        fits, beyond = (tried, beyond) if stand(tried) else (fits, tried)
    return fits


def _mended(step: MemoryStep) -> MemoryStep:
    """A copy whose texts are texts and whose calls are such as upstream can turn into JSON."""
    mended: Any = copy.copy(step)
    for field in filter(None, (kind_of(step).said, kind_of(step).text)):
        value = getattr(step, field, None)
        if not isinstance(value, str) and (value is not None or is_required(step, field)):
            setattr(mended, field, text_of(value))
    if getattr(step, "tool_calls", None):
        mended.tool_calls = [_mended_call(call) for call in mended.tool_calls]
    return mended


def _mended_call(call: Any) -> ToolCall:
    made = ToolCall(*call_parts(call))
    try:
        str(made.dict())
    except Exception:  # noqa: BLE001 - such as a list that holds itself: as Python shows it
        made.arguments = repr(made.arguments)
    return made


def shorten(text: str, max_chars: int, notice: str = CUT, *, was: int = 0, step: int | str = "") -> tuple[str, int]:
    """Head and tail of a text within `max_chars`, and the length of the whole, which `was` longer if cut before."""
    total = max(len(text), was)
    if len(text) <= max_chars:
        return text, total
    for wording in (notice, CUT, "…"):
        said = wording.format(cut=f"{total:,}", total=f"{total:,}", step=step)
        if len(said) <= max_chars * 2 // 3 or wording == "…":
            break
    room = max(0, max_chars - len(said))
    tail = room // 3
    said = wording.format(cut=f"{total - room:,}", total=f"{total:,}", step=step)
    return (text[: room - tail] + said + text[len(text) - tail :])[:max_chars], total
