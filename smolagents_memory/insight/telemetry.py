"""Events as OpenTelemetry spans and metrics, through opentelemetry-api alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smolagents_memory._events import ANY, Event
from smolagents_memory._version import __version__
from smolagents_memory.privacy.scrubbers import rule


if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


_SCOPE = "smolagents_memory"


def trace_events(
    source: Any,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    attributes: Callable[[Event], Mapping[str, Any]] | None = None,
    redact: Any = None,
) -> Callable[[], None]:
    """Make a span `memory.<event>` and a count of every event that `source` tells; returns a function that ends it.

    A span is a child of the span that is current where the event happens, such as the agent's run under
    openinference. It says how many and what kind of steps, and numbers; no text of yours leaves the process. With no
    SDK set up (and no provider given) nothing is listened to, and nothing is paid: set it up first.

    Args:
        source: An agent with an ObservedMemory, that memory, a TypedMemory, a session: what can be listened to.
        tracer_provider, meter_provider: Where to send spans and metrics; the global ones by default.
        attributes: More attributes for an event's span.
        redact: What is done to the texts in those: True, a `Redactor`, or a function of a text. By default what the
            memory's or the session's own place does, if it redacts; False for nothing.

    >>> from smolagents_memory import ObservedMemory
    >>> stop = trace_events(ObservedMemory("You are helpful."))  # no SDK here: costs nothing
    >>> stop()
    """
    from opentelemetry import metrics, trace

    on = getattr(source, "on", None) or getattr(getattr(source, "memory", None), "on", None)
    if on is None:
        raise TypeError(
            f"a {type(source).__name__} tells no events; give an ObservedMemory, an agent whose memory is one, "
            "a session or a TypedMemory"
        )
    global_tracers, global_meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    idle = isinstance(global_tracers, trace.ProxyTracerProvider) and type(global_meters).__module__.startswith(
        "opentelemetry.metrics"  # the API's own stand-in, whose class is private
    )
    if idle and tracer_provider is None and meter_provider is None:
        return lambda: None
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
    meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
    count = meter.create_counter("smolagents_memory.events", unit="{event}", description="Events of memory")
    seconds = meter.create_histogram("smolagents_memory.event.duration", unit="s", description="How long they took")

    told_by = rule(redact, source)

    def listener(event: Event) -> None:
        told = {"smolagents_memory.event": event.name, "smolagents_memory.source": type(event.source).__name__}
        took = event.data.get("seconds")
        now = time.time_ns()
        begun = now - int(took * 1e9) if isinstance(took, (int, float)) else now
        span = tracer.start_span(f"memory.{event.name}", start_time=begun)
        if span.is_recording():
            more = {
                name: _redacted(value, told_by) for name, value in (attributes(event) if attributes else {}).items()
            }
            span.set_attributes({**told, **_figures(event), **more})
        span.end(now)
        count.add(1, told)
        if isinstance(took, (int, float)):
            seconds.record(took, told)

    off: Callable[[], None] = on(ANY, listener)
    return off


def _redacted(value: Any, told: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return told(value)
    return [_redacted(each, told) for each in value] if isinstance(value, (list, tuple)) else value


def _figures(event: Event) -> dict[str, Any]:
    """What an event carries, as numbers and names of classes: no content."""
    figures: dict[str, Any] = {}
    for name, value in event.data.items():
        key = f"{_SCOPE}.{name}"
        if isinstance(value, (bool, int, float)):
            figures[key] = value
        elif isinstance(value, (tuple, list)):
            figures[key] = len(value)
            figures[f"{key}.kinds"] = sorted({type(member).__name__ for member in value})
        elif isinstance(value, Mapping):
            figures[key] = len(value)
        elif not isinstance(value, (str, bytes)) and value is not None:
            figures[f"{key}.kind"] = type(value).__name__
    return figures
