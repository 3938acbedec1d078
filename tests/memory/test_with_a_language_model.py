"""The same learning with a real small language model, served over HTTP on loopback; its calls' shape is forced.

The model is far too small to drive an agent unaided: what is asserted is memory, never the quality of its words.
"""

from __future__ import annotations

import json

import pytest
from smolagents import CodeAgent, Tool

from smolagents_memory import EnhancedAgentMemory, NoteStep, RecallTool


TASK = "Fetch the quarterly report of the Zorblax branch."


class Fetch(Tool):
    name = "fetch_report"
    description = "Fetches a report in a format."
    inputs = {"branch": {"type": "string", "description": "x"}, "format": {"type": "string", "description": "x"}}
    output_type = "string"

    def forward(self, branch: str, format: str) -> str:
        if format != "parquet":
            raise ValueError(f"the format {format} is not available, only parquet is")
        return f"report of {branch}: revenue 1,234,567"


def forced(address, sources):
    """A model that thinks in its own words and then writes the next of `sources`."""
    from smolagents import OpenAIServerModel

    class Forced(OpenAIServerModel):
        def generate(self, messages, stop_sequences=None, **options):
            source = next(self.sources)
            if callable(source):
                source = source(str([message.content for message in messages]))
            opening, closing = self.tags
            body = json.dumps(f"\n{opening}\n{source}\n{closing}")
            grammar = f'root ::= "Thought: " [a-zA-Z ,]{{8,40}} "." {body}'
            options["extra_body"] = {"grammar": grammar}
            return super().generate(messages, stop_sequences=None, max_tokens=200, **options)

    model = Forced(model_id="smollm2", api_base=f"{address}/v1", api_key="none", temperature=0.0)
    model.sources = iter(sources)
    return model


def run(memory, address, sources):
    model = forced(address, sources)
    agent = CodeAgent(tools=[Fetch(), RecallTool(memory)], model=model, verbosity_level=0, max_steps=6)
    model.tags = getattr(agent, "code_block_tags", ("<code>", "</code>"))
    memory.attach(agent)
    answer = agent.run(TASK)
    return agent, answer


@pytest.mark.slow
def test_a_real_model_fails_learns_the_cause_and_solves_the_task_from_memory(served, tmp_path):
    """With one recall, and then with auto-recall and no tool call at all."""

    def informed(text):
        chosen = "parquet" if "parquet" in text else "csv"
        return f"final_answer(fetch_report('Zorblax', '{chosen}'))"

    with EnhancedAgentMemory(tmp_path) as memory:
        agent, answer = run(
            memory, served, ["fetch_report('Zorblax', 'csv')", "fetch_report('Zorblax', 'xlsx')", informed]
        )
        first = len(agent.memory.steps)
        assert "1,234,567" in answer
        failures = memory.recall(TASK, 10, where={"kind": "failure"})
        assert any("only parquet is" in hit.value for hit in failures)
    with EnhancedAgentMemory(tmp_path) as memory:
        agent, answer = run(memory, served, ["print(recall('fetch quarterly report Zorblax'))", informed])
        assert "1,234,567" in answer
        assert len(agent.memory.steps) < first
        assert not [step for step in agent.memory.steps if getattr(step, "error", None)]
    with EnhancedAgentMemory(tmp_path, auto_recall=5) as memory:
        agent, answer = run(memory, served, [informed])
        assert "1,234,567" in answer
        assert isinstance(agent.memory.steps[1], NoteStep)
        assert len(agent.memory.steps) == 3
