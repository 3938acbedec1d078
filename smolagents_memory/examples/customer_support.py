"""A support case as typed state: what the desk, the agent and a dashboard read and change at the same time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from smolagents_memory import TypedMemory


@dataclass
class SupportCase:
    """One customer's case."""

    customer_id: str | None = None
    ticket_id: str | None = None
    issue_category: str | None = None
    resolution_status: Literal["open", "resolved"] = "open"
    escalation_level: int = 1
    customer_satisfaction: int | None = None
    interaction_notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Write down what happened, with the time."""
        self.interaction_notes.append(f"[{datetime.now(timezone.utc):%H:%M:%S}] {text}")


class CustomerSupportMemory(TypedMemory[SupportCase]):
    """A SupportCase that any number of threads may work on; each of these methods is one atomic change.

    >>> memory = CustomerSupportMemory()
    >>> memory.start_support_session("ada", "billing").startswith("TICKET_")
    True
    >>> memory.escalate("charged twice")
    2
    >>> memory.resolve("second charge refunded", satisfaction=5)
    >>> status = memory.get_support_status()
    >>> status["resolution_status"], status["customer_satisfaction"], status["interaction_count"]
    ('resolved', 5, 3)
    """

    def __init__(self, initial: SupportCase | None = None, *, name: str = "support_case") -> None:
        super().__init__(initial or SupportCase(), name=name)

    def start_support_session(self, customer_id: str, issue_category: str) -> str:
        """Open a new case and return its ticket."""
        ticket = f"TICKET_{datetime.now(timezone.utc):%Y%m%d_%H%M%S_%f}_{customer_id}"
        case = SupportCase(customer_id, ticket, issue_category)
        case.note(f"Support session started for {customer_id}, category: {issue_category}")
        self.set(case)
        return ticket

    def add_interaction_note(self, note: str) -> None:
        """Add a note about the customer."""
        self.update(lambda case: case.note(note))

    def escalate(self, reason: str) -> int:
        """Hand the case one level up; returns the level it is on now."""

        def one_up(case: SupportCase) -> None:
            case.escalation_level += 1
            case.note(f"Escalated to level {case.escalation_level}: {reason}")

        return self.update(one_up).escalation_level

    def resolve(self, resolution: str, satisfaction: int) -> None:
        """Close the case; `satisfaction` is the customer's, from 1 to 5."""
        if not 1 <= satisfaction <= 5:
            raise ValueError(f"satisfaction is from 1 to 5, not {satisfaction}; the case stays as it was")

        def close(case: SupportCase) -> None:
            case.resolution_status = "resolved"
            case.customer_satisfaction = satisfaction
            case.note(f"Resolved: {resolution} (satisfaction: {satisfaction}/5)")

        self.update(close)

    def get_support_status(self) -> dict[str, Any]:
        """The case in a few words, all of one moment."""
        status = asdict(self.get())
        status["interaction_count"] = len(status.pop("interaction_notes"))
        return status
