"""ScriptedModel: a real model that always answers the same."""

from __future__ import annotations

import pytest
from agents import calling_agent, code_agent, photo
from smolagents.models import ChatMessage, MessageRole
from smolagents.utils import AgentGenerationError

from smolagents_memory._errors import ScriptError
from smolagents_memory.testing import ScriptedModel, call, code


def ask(model: ScriptedModel, text: str = "hi") -> ChatMessage:
    return model.generate([ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": text}])])


def test_it_plays_texts_calls_messages_and_functions_in_order() -> None:
    message = ChatMessage(role=MessageRole.ASSISTANT, content="mine")
    model = ScriptedModel(
        ["one", call("a", x=1), [call("b"), call("c")], message, lambda sent: sent[0].content[0]["text"]]
    )
    assert ask(model).content == "one"
    assert ask(model).tool_calls[0].function.arguments == {"x": 1}
    assert [made.id for made in ask(model).tool_calls] == ["call_2", "call_3"]
    assert ask(model) is message
    assert ask(model, "echo").content == "echo"


def test_an_exception_in_the_script_is_raised_as_a_provider_s_would_be() -> None:
    agent = code_agent([ConnectionError("no network")], planning_interval=None)
    with pytest.raises(AgentGenerationError, match="no network"):
        agent.run("go")


def test_a_script_that_ran_out_or_holds_nonsense_says_so() -> None:
    model = ScriptedModel(["only"])
    ask(model)
    with pytest.raises(ScriptError, match="has 1 entries and was asked for one more"):
        ask(model)
    with pytest.raises(ScriptError, match="is a int"):
        ask(ScriptedModel([3]))  # type: ignore[list-item]


def test_a_generator_may_go_on_for_ever() -> None:
    def counting():  # type: ignore[no-untyped-def]
        number = 0
        while True:
            yield str(number)
            number += 1

    model = ScriptedModel(counting())
    assert [ask(model).content for _ in range(3)] == ["0", "1", "2"]


def test_it_records_what_it_was_sent_and_later_edits_do_not_reach_that() -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    agent.run("look", images=[photo()])
    sent = agent.model.calls[0]
    agent.memory.steps[1].model_input_messages[1].content.clear()
    assert "look" in sent.text
    assert len(sent.images) == 1
    assert sent.stop_sequences == ["Observation:", "Calling tools:", "</code>"]


@pytest.mark.parametrize(("record", "kept"), [("all", 3), ("last", 1), ("none", 0)])
def test_what_is_recorded_can_be_chosen(record: str, kept: int) -> None:
    model = ScriptedModel(["a", "b", "c"], record=record)  # type: ignore[arg-type]
    for _ in range(3):
        ask(model)
    assert len(model.calls) == kept


def test_a_stream_adds_up_to_the_same_answer_and_usage() -> None:
    script = [code("print('a long enough text to come in several pieces')"), code("final_answer(2)")]
    streamed, whole = (
        code_agent(script, stream_outputs=True, planning_interval=None),
        code_agent(script, planning_interval=None),
    )
    assert streamed.run("go") == whole.run("go") == 2
    assert streamed.memory.steps[1].model_output == whole.memory.steps[1].model_output
    assert streamed.memory.steps[1].token_usage == whole.memory.steps[1].token_usage


def test_streamed_calls_keep_their_arguments() -> None:
    script = [[call("double", number=1), call("double", number=2)], call("final_answer", answer="x")]
    agent = calling_agent(script, stream_outputs=True, planning_interval=None)
    assert agent.run("go") == "x"
    assert [made.arguments for made in agent.memory.steps[1].tool_calls] == [{"number": 1}, {"number": 2}]


def test_usage_is_an_estimate_that_never_changes() -> None:
    first, second = (ask(ScriptedModel(["x" * 40]), "y" * 400).token_usage for _ in range(2))
    assert first == second
    assert (first.input_tokens, first.output_tokens) == (100, 10)
