"""A memory is one living agent's; at one place any number share what is remembered."""

from __future__ import annotations

import threading

import pytest
from smolagents import CodeAgent
from smolagents.memory import AgentMemory, TaskStep

from smolagents_memory import EnhancedAgentMemory, ObservedMemory, Session
from smolagents_memory._errors import AttachError, SessionError
from smolagents_memory.testing import ScriptedModel, code


def agent(*script, **options):
    return CodeAgent([], ScriptedModel([code(each) for each in script]), verbosity_level=0, **options)


def words(memory_or_agent):
    memory = getattr(memory_or_agent, "memory", memory_or_agent)
    return [step.task for step in memory.steps if isinstance(step, TaskStep)]


def test_a_second_living_agent_is_refused_and_both_keep_what_they_have(tmp_path):
    first, second = agent("final_answer(1)"), agent("final_answer(2)")
    second.run("Second's own")
    with EnhancedAgentMemory(tmp_path, vector=False, scope={"user": "ann"}).attach(first) as memory:
        first.run("First's own")
        for attach in (memory.attach, lambda other: setattr(other, "memory", memory)):
            with pytest.raises(AttachError, match=r"EnhancedAgentMemory\('.*memory\.db', scope=\{'user': 'ann'\}\)"):
                attach(second)
        assert (words(first), words(second)) == (["First's own"], ["Second's own"])
        assert second.memory is not memory
        assert first.memory is memory


def test_manager_and_managed_agent_share_a_place_and_not_a_memory(tmp_path):
    """The recipe for a team: as many memories as agents, in one scope."""
    helper = agent("final_answer('The VPN is needed for staging.')", name="helper", description="Helps.")
    manager = agent("final_answer(helper('How is staging reached?'))", managed_agents=[helper])
    team = {"team": "blue"}
    with EnhancedAgentMemory(tmp_path, vector=False, scope=team).attach(manager) as of_manager:
        with pytest.raises(AttachError):
            of_manager.attach(helper)
        with EnhancedAgentMemory(tmp_path, vector=False, scope=team).attach(helper) as of_helper:
            manager.run("Find out how staging is reached")
            assert words(manager) == ["Find out how staging is reached"]
            assert of_helper.steps is not of_manager.steps
            assert of_manager.recall("staging VPN")[0].value == of_helper.recall("staging VPN")[0].value


def test_four_threads_cannot_share_one_and_can_share_a_place(tmp_path):
    shared, refused, prompts = EnhancedAgentMemory(tmp_path, vector=False), [], {}
    together = threading.Barrier(4)

    def serve(user):
        mine = agent("final_answer(1)", "final_answer(2)")
        together.wait()
        try:
            shared.attach(mine)
        except AttachError:
            refused.append(user)
            EnhancedAgentMemory(tmp_path, vector=False, scope={"user": user}).attach(mine)
        together.wait()
        mine.run(f"secret of {user}", reset=False)
        mine.run(f"more of {user}", reset=False)
        prompts[user] = str(mine.write_memory_to_messages())
        together.wait()

    threads = [threading.Thread(target=serve, args=(f"user{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3
    for user, prompt in prompts.items():
        assert [f"user{n}" in prompt for n in range(4)] == [f"user{n}" == user for n in range(4)]


def test_an_agent_that_is_gone_or_let_go_of_makes_room(tmp_path):
    memory = EnhancedAgentMemory(tmp_path, vector=False)
    first = agent("final_answer(1)")
    memory.attach(first)
    first.run("First's own")
    memory.detach()
    second = agent("final_answer(2)")
    memory.attach(second)
    assert words(first) == ["First's own"]
    assert words(second) == []
    second.run("Second's own")
    del second
    memory.attach(third := agent("final_answer(3)"))
    assert words(third) == []
    assert [hit.value.splitlines()[0] for hit in memory.recall("own", 5)] == [
        "Task: Second's own",
        "Task: First's own",
    ]
    memory.close()


def test_to_assign_one_is_to_attach_it(tmp_path):
    """As guides write it: it recalls for the next task, learns from the run, and keeps the steps that are there."""
    mine = agent("final_answer(1)", "final_answer('by VPN')", "final_answer('by VPN')")
    mine.run("Before")
    mine.memory = memory = EnhancedAgentMemory(tmp_path, vector=False, auto_recall=3)
    assert words(mine) == ["Before"]
    mine.run("How is the staging server reached?")
    mine.run("How is the staging server reached?")
    assert any(getattr(step, "kind", "") == "recalled" for step in mine.memory.steps)
    assert memory.count() if hasattr(memory, "count") else memory.stats()
    memory.close()


@pytest.mark.parametrize("assigned", [True, False])
def test_a_second_memory_on_one_agent_is_refused(tmp_path, assigned):
    mine = agent("final_answer(1)")
    first = EnhancedAgentMemory(tmp_path, vector=False).attach(mine)
    second = EnhancedAgentMemory(tmp_path, vector=False)
    with pytest.raises(AttachError, match="detach"):
        if assigned:
            mine.memory = second
        else:
            second.attach(mine)
    assert mine.memory is first
    mine.run("Once")
    assert [hit.value for hit in first.recall("Once")] == ["Task: Once\nOutcome: 1"]
    first.detach()
    mine.memory = second
    assert words(mine) == ["Once"]


def test_what_was_put_into_it_before_stands_behind_the_agent_s_steps(tmp_path):
    mine = agent("final_answer(1)")
    mine.run("Before")
    memory = EnhancedAgentMemory(vector=False)
    memory.add_message("system", "Be terse.")
    memory.attach(mine)
    assert words(mine) == ["Before"]
    assert "Be terse." in str(mine.write_memory_to_messages()[-1].content)


def test_an_enhanced_memory_that_is_replaced_says_so_and_learns_no_more(tmp_path, caplog):
    mine = agent("final_answer(1)", "final_answer(2)")
    memory = EnhancedAgentMemory(tmp_path, vector=False).attach(mine)
    mine.run("Learnt")
    mine.memory = AgentMemory("plain")
    mine.run("Not learnt")
    assert [hit.value for hit in memory.recall("learnt")] == ["Task: Learnt\nOutcome: 1"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["agent.memory is a AgentMemory now"]
    memory.attach(mine)  # again, by name
    assert words(mine) == ["Not learnt"]


def test_a_session_s_memory_takes_no_second_agent(tmp_path):
    first, second = agent("final_answer(1)"), agent("final_answer(2)")
    with Session("one", tmp_path).attach(first) as session:
        with pytest.raises(AttachError, match="another agent"):
            second.memory = first.memory
        second.run("Second's own")
        first.run("First's own")
        assert [step.task for step in session.steps() if isinstance(step, TaskStep)] == ["First's own"]
    second.memory = first.memory  # as smolagents lets one


def test_a_plain_observed_memory_is_replaced_as_ever():
    mine = agent("final_answer(1)")
    mine.memory = ObservedMemory("prompt")
    other = agent()
    other.memory = mine.memory
    assert other.memory is mine.memory
    del other.memory
    with pytest.raises(AttributeError):
        other.memory  # noqa: B018


def test_a_failing_session_leaves_the_agent_as_it_was(tmp_path):
    mine = agent("final_answer(1)")
    before = mine.memory
    with Session("busy", tmp_path).attach(agent()):
        memory = EnhancedAgentMemory(tmp_path, vector=False, session=Session("busy", tmp_path))
        with pytest.raises(SessionError):
            memory.attach(mine)
        assert mine.memory is before
    memory.attach(mine)
    assert mine.memory is memory
    memory.close()


def test_two_runs_at_once_of_one_agent_are_one_and_an_error(tmp_path):
    inside, go_on = threading.Event(), threading.Event()

    def held(step):
        inside.set()
        go_on.wait(10)

    mine = agent("final_answer(1)", "final_answer(2)", step_callbacks=[held])
    memory = EnhancedAgentMemory(tmp_path, vector=False).attach(mine)
    first = threading.Thread(target=mine.run, args=("First",))
    first.start()
    inside.wait(10)
    with pytest.raises(AttachError, match="another thread"):
        mine.run("Second")
    go_on.set()
    first.join()
    assert words(memory) == ["First"]
