"""StateTool: lets an agent read a TypedMemory and, if you allow it, change it."""

from __future__ import annotations

from typing import Any

from smolagents import Tool

from smolagents_memory.state import TypedMemory


class StateTool(Tool):
    """Reads the shared state; with `writable=True` the agent may also set fields of it, checked against their types.

    Changes are atomic. One that does not fit the type is refused with a message that the agent reads, and changes
    nothing. The tool holds a live object, so it cannot be saved or pushed to the hub.

    >>> from smolagents_memory.examples.customer_support import CustomerSupportMemory
    >>> case = CustomerSupportMemory()
    >>> tool = StateTool(case, writable=True)
    >>> tool(changes={"issue_category": "billing"})["issue_category"]
    'billing'
    >>> case.get().issue_category
    'billing'
    """

    name = "state"
    description = "The state that you share with others."
    output_type = "object"
    inputs: dict[str, Any] = {}  # noqa: RUF012  (each instance sets its own, as smolagents expects)
    skip_forward_signature_validation = True  # the parameters depend on `writable`

    def __init__(self, memory: TypedMemory[Any], *, writable: bool = False, name: str | None = None) -> None:
        self.memory = memory
        self.writable = writable
        self.name = name or memory.name
        shape = memory.dump()
        fields = f" Its fields: {', '.join(map(str, shape))}." if isinstance(shape, dict) and shape else ""
        self.description = f"Reads the state {memory.name!r} that you share with others.{fields}"
        self.inputs = {}
        if writable:
            self.description += " With `changes` it first sets those fields; the answer is the state as it is then."
            self.inputs = {
                "changes": {
                    "type": "object",
                    "description": 'The fields to set, by name; for a state without fields: {"value": new value}.',
                    "nullable": True,
                }
            }
        super().__init__()

    def forward(self, changes: dict[str, Any] | None = None) -> Any:
        """The state as plain data, after the changes if there are any."""
        if changes and not self.writable:
            raise PermissionError(f"the state {self.name!r} can only be read")
        if changes and isinstance(self.memory.dump(), dict):
            self.memory.merge(changes)
        elif changes:
            if "value" not in changes:
                raise ValueError(f'{self.name!r} has no fields; set it as a whole: {{"value": new value}}')
            self.memory.restore(changes["value"])
        return self.memory.dump()

    def to_dict(self) -> dict[str, Any]:
        """Refused: a copy elsewhere would not share the state."""
        raise ValueError(
            f"the tool {self.name!r} holds a live TypedMemory and cannot be saved or pushed; "
            "build it where the memory is: StateTool(memory)"
        )
