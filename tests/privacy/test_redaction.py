"""Redactor, and Place(redact=…): what is written has placeholders, the same for the same, and nothing raises."""

from __future__ import annotations

import gc
import json
import random
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyrings import RamKeyring
from reading import positives
from smolagents import CodeAgent
from smolagents.memory import ActionStep, TaskStep
from smolagents.utils import AgentExecutionError

from smolagents_memory import (
    AddContext,
    EnhancedAgentMemory,
    InMemoryStore,
    KeyManager,
    MemoryLossWarning,
    Place,
    PlaceError,
    RecallTool,
    Recogniser,
    Redactor,
    RedactPrompt,
    Seal,
    Session,
    SqliteStore,
    ToolStateError,
    TruncateObservations,
    TypedMemory,
    UnsupportedValueError,
    everywhere,
    reasoning,
    to_markdown,
    trace_events,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.database.redacting import redaction_of
from smolagents_memory.privacy.redaction import FAILED, PLACEHOLDER
from smolagents_memory.steps.marks import returned_text
from smolagents_memory.testing import ScriptedModel, code


MAIL, OTHER = "olivia.hart@oakridge.edu", "j.weber@nordwind-verlag.de"
REDACTOR = Redactor(key=b"k" * 32)
ROWS = positives()
pieces = st.one_of(
    st.sampled_from([row["text"] for row in ROWS]),
    st.sampled_from([value["value"] for row in ROWS for value in row["values"]]),
    st.sampled_from(["[EMAIL_12345678]", FAILED, "password: ", "\ud800", "\\n", '\\"', "\x1b[0m"]),
    st.sampled_from("[]_@.- \n0İ\u200b\u00a0＠\\"),
    st.text(max_size=8),
)
texts = st.lists(pieces, max_size=6).map("".join)


# -- the redactor --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(texts)
def test_redacting_again_changes_nothing(text: str) -> None:
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once) == once
    assert REDACTOR.find(once) == []


@settings(max_examples=100, deadline=None)
@given(texts)
def test_nothing_that_was_found_is_left(text: str) -> None:
    redacted = REDACTOR.redact(text)
    outside = PLACEHOLDER.sub("\0", redacted)
    for found in REDACTOR.find(text):
        assert text[found.start : found.end] == found.value
        assert found.value not in outside or found.value in PLACEHOLDER.sub("\0", _without(text, REDACTOR.find(text)))


def _without(text: str, found: list[Any]) -> str:
    """What stood there before and is none, such as the same digits within a version."""
    for each in reversed(found):
        text = text[: each.start] + "\0" + text[each.end :]
    return text


def test_the_same_value_has_the_same_placeholder_in_a_scope_and_another_one_elsewhere() -> None:
    one, two = REDACTOR.redact(f"{MAIL} {OTHER}", "ann").split()
    assert one != two
    assert REDACTOR.redact(f"to {MAIL.upper()}!", "ann") == f"to {one}!"
    assert one not in REDACTOR.redact(MAIL, "bob")
    assert REDACTOR.redact(MAIL, "ann") == Redactor(key=b"k" * 32).redact(MAIL, "ann")
    assert REDACTOR.redact(MAIL) != Redactor().redact(MAIL)


def test_a_number_is_the_same_however_it_is_spaced() -> None:
    forms = ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00"]
    assert len({REDACTOR.redact(each) for each in forms}) == 1


def test_thousands_of_values_have_placeholders_of_their_own() -> None:
    chance = random.Random(3)
    mails = [f"u{chance.randrange(10**9)}.{n}@example.org" for n in range(20_000)]
    assert len(set(REDACTOR.redact(" ".join(mails)).split())) == len(mails)


@pytest.mark.slow
def test_text_of_ten_megabytes_and_subclasses_of_str() -> None:
    class Told(str):
        def __str__(self) -> str:
            raise AssertionError("never asked")

    text = (f"Which of the two would you choose, and why? Ask {MAIL}. " * 200_000)[:10_000_000]
    begun = time.process_time()
    redacted = REDACTOR.redact(Told(text))
    assert time.process_time() - begun < 60
    assert type(redacted) is str
    assert MAIL not in redacted


def test_entries_of_ones_own_and_only_some_kinds() -> None:
    staff = Recogniser("STAFF_ID", r"\bE-(\d{6})\b", check=lambda found: found != "000000", group=1)
    redactor = Redactor(kinds=["EMAIL", "STAFF_ID"], also=[staff])
    assert redactor.kinds == ["EMAIL", "STAFF_ID"]
    redacted = redactor.redact(f"E-123456, E-000000, {MAIL}, 192.0.2.77")
    assert redacted.startswith("E-[STAFF_ID_")
    assert redacted.endswith(", 192.0.2.77")
    assert "E-000000" in redacted
    with pytest.raises(ValueError, match="nothing recognises NAME; there are CARD"):
        Redactor(kinds=["NAME"])
    with pytest.raises(ValueError, match="capitals"):
        Recogniser("name", "x")
    with pytest.raises(ValueError, match="functions of a text"):
        Redactor(also=["EMAIL"])  # type: ignore[list-item]


class Result:
    """As Presidio gives it."""

    def __init__(self, entity_type: str, start: int, end: int) -> None:
        self.entity_type, self.start, self.end = entity_type, start, end


def test_a_function_that_finds_more_is_asked_and_its_placeholders_are_left_alone() -> None:
    redactor = Redactor(also=[lambda text: [Result("Person Name", 0, 3)] if text.startswith("Ann") else []])
    redacted = redactor.redact(f"Ann writes to {MAIL}")
    assert redacted.startswith("[PERSON_NAME_")
    assert "[EMAIL_" in redacted
    greedy = Redactor(also=[lambda text: [("ALL", 0, len(text))]])
    once = greedy.redact(f"Ann and {MAIL}")
    assert PLACEHOLDER.fullmatch(once)
    assert greedy.redact(f"{once} again") == greedy.redact(greedy.redact(f"{once} again"))
    assert greedy.redact(f"{once} again").startswith(once)


@pytest.mark.parametrize("wrong", [ValueError("x@y.example is secret"), RecursionError(), KeyError("x")])
def test_what_fails_is_written_nowhere_and_said_without_a_quote(wrong: Exception) -> None:
    def fails(text: str) -> str:
        raise wrong

    for redact in (Redactor(also=[fails]), Redactor.of(fails), Redactor.of(lambda text: 5)):
        assert redact is not None
        with pytest.warns(MemoryLossWarning, match="could not be redacted") as said:
            assert redact.redact(f"ask {MAIL}") == FAILED
        assert not any("example" in str(each.message) or MAIL in str(each.message) for each in said)


def test_without_a_seal_nothing_can_be_given_back() -> None:
    memory = EnhancedAgentMemory(Place(redact=REDACTOR), vector=False)
    memory.remember(f"ask {MAIL}")
    with pytest.raises(PlaceError, match=r"only where it was kept under a seal: Place\(…, seal=…"):
        REDACTOR.reveal("ask [EMAIL_12345678]")


def test_under_a_seal_it_is_given_back_and_goes_with_the_memories(tmp_path: Path) -> None:
    redactor, seal = Redactor(), Seal(bytes(32), RamKeyring())
    place = Place(tmp_path, seal=seal, redact=redactor)
    memory = EnhancedAgentMemory(place, vector=False, scope={"user": "ann"})
    key = memory.remember(f"ask {MAIL} or {OTHER}")
    said = memory.get(key).value  # type: ignore[union-attr]
    assert MAIL not in said
    memory.recall("who is x.unknown@example.org?")  # a question is not kept
    again = Redactor()
    other = EnhancedAgentMemory(Place(tmp_path, seal=seal, redact=again), vector=False, scope={"user": "ann"})
    assert again.reveal(said) == f"ask {MAIL} or {OTHER}"
    assert again.reveal("[EMAIL_00000000]") == "[EMAIL_00000000]"
    other.update(key, text=f"ask {OTHER}")
    other.purge()
    assert MAIL not in again.reveal(said)
    assert OTHER in again.reveal(said)
    other.clear()
    assert again.reveal(said) == said


def test_under_a_seal_a_journal_gives_back_as_well(tmp_path: Path) -> None:
    redactor = Redactor(journal=True)
    place = Place(tmp_path, seal=Seal(bytes(32), RamKeyring()), redact=redactor)
    agent = CodeAgent([], ScriptedModel([code(f"final_answer('{OTHER}')")]), verbosity_level=0)
    with Session("s", place).attach(agent) as session:
        session.run(f"Ask {MAIL}.")
    task = Session("s", place).steps()[0].task  # type: ignore[attr-defined]
    assert MAIL not in task
    del agent, session
    gc.collect()  # who wrote it is gone
    assert redactor.reveal(task) == f"Ask {MAIL}."
    KeyManager(place).reseal()
    assert redactor.reveal(task) == f"Ask {MAIL}."
    assert Session("s", place).delete()
    assert redactor.reveal(task) == task  # it went with the session


def test_a_place_that_is_sealed_later_has_the_same_placeholders(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=True)
    with EnhancedAgentMemory(place, vector=False) as memory:
        said = memory.get(memory.remember(f"ask {MAIL}")).value  # type: ignore[union-attr]
    sealed = Place(place, seal=Seal(bytes(32), RamKeyring()))
    KeyManager(sealed).seal()
    with EnhancedAgentMemory(sealed, vector=False) as memory:
        assert memory.recall(f"who is {MAIL}?")[0].value == said
        assert memory.get(memory.remember(f"tell {MAIL}")).value.split()[1] == said.split()[1]  # type: ignore[union-attr]


# -- a place -------------------------------------------------------------------------------------------------------


def test_what_a_place_takes() -> None:
    assert Place(redact=True).redact is not None
    assert Place(redact=REDACTOR).redact is REDACTOR
    assert Place().redact is None
    first = Place(redact=REDACTOR)
    assert Place(first).redact is REDACTOR
    assert Place(first, redact=False).redact is None
    for wrong in ("yes", 1, Redactor, [str.lower]):
        with pytest.raises(PlaceError, match="redact is True, a Redactor, or a function"):
            Place(redact=wrong)  # type: ignore[arg-type]


def test_processes_agree_and_places_and_scopes_do_not(tmp_path: Path) -> None:
    def said(folder: str, scope: Any = None) -> str:
        database = Database.at(Place(tmp_path / folder, redact=True))
        redaction = redaction_of(database, json.dumps(scope), database.place.redact)
        assert redaction is not None
        return redaction.text(MAIL)

    assert said("one") == said("one")
    assert len({said("one"), said("two"), said("one", "ann"), said("two", "ann")}) == 4


def test_a_damaged_key_is_an_error_and_nothing_is_written_in_the_clear(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=True)
    memory = EnhancedAgentMemory(place, vector=False)
    memory.remember(f"ask {MAIL}")
    with Database.at(place).writing() as connection:
        connection.exec_driver_sql("UPDATE memory_about SET value = 'none' WHERE name = 'redaction'")
    with pytest.raises(Exception, match="its key for placeholders is none"):
        memory.remember(f"and {OTHER}")
    assert memory.count() == 1


def test_what_is_asked_for_is_found(tmp_path: Path) -> None:
    memory = EnhancedAgentMemory(Place(tmp_path, redact=True), vector=False)
    memory.remember("The tea is in the kitchen.")
    key = memory.remember(f"The cook is {MAIL}.", key=MAIL, source=OTHER, meta={"by": {"mail": [OTHER]}, "n": 3})
    assert MAIL not in key
    assert memory.recall(f"who is {MAIL.upper()}?", k=1)[0].key == key
    assert memory.recall("cook", where={"source": OTHER})[0].key == key
    assert memory.get(MAIL) == memory.get(key)
    assert memory.count(where={"by": {"mail": [OTHER]}}) == 1
    assert memory.pin(MAIL)
    assert memory.feedback(MAIL)
    assert memory.update(MAIL, text=f"It is {OTHER}.")
    assert OTHER not in memory.get(MAIL).value  # type: ignore[union-attr]
    assert memory.revoke(source=OTHER) == [key]
    memory.remember("x", key=MAIL)
    assert memory.forget(MAIL)
    assert not memory.forget(MAIL)


def test_keys_that_are_made_of_texts_say_nothing_of_them(tmp_path: Path) -> None:
    keys = [EnhancedAgentMemory(Place(tmp_path / n, redact=True), vector=False).remember(MAIL) for n in "ab"]
    assert keys[0] != keys[1]  # a hash of the text itself would be the same everywhere, and could be guessed
    memories = [EnhancedAgentMemory(Place(tmp_path / n, redact=True), vector=False) for n in "ab"]
    sources = [memory.get(memory.remember_document(MAIL)[0]).source for memory in memories]  # type: ignore[union-attr]
    assert sources[0] != sources[1]


def test_a_plain_store_finds_by_what_it_was_given(tmp_path: Path) -> None:
    store: SqliteStore[Any] = SqliteStore(Place(tmp_path, redact=True))
    store.add(MAIL, {"to": [OTHER, (1, b"raw")], 5: 6.5}, {"from": MAIL})
    assert store.get_many([MAIL])[MAIL] == store.get(MAIL)
    kept: Any = store.get(MAIL)
    assert kept["to"][1] == (1, b"raw")
    assert kept[5] == 6.5
    assert OTHER not in str(kept)
    assert MAIL in store
    assert [hit.key for hit in store.search(OTHER, where={"from": MAIL})] == list(store)
    assert store.forget_many([MAIL]) == 1


def test_a_name_says_what_its_value_is() -> None:
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    store.add("k", {"api_key": "vN3xQ8rT2mK7wL5z", "note": "vN3xQ8rT2mK7wL5z"})
    kept: Any = store.get("k")
    assert PLACEHOLDER.fullmatch(kept["api_key"])
    assert kept["note"] == "vN3xQ8rT2mK7wL5z"


def test_a_store_of_ones_own_gets_redacted_texts() -> None:
    texts, vectors = InMemoryStore[Any](), InMemoryStore[Any]()
    memory = EnhancedAgentMemory(Place(redact=REDACTOR), long_term=texts, vector_store=vectors)
    memory.remember(f"ask {MAIL}", key=MAIL)
    assert MAIL not in str([*texts.items(), *vectors.items()])
    assert memory.recall(MAIL)[0].key == memory.get(MAIL).key  # type: ignore[union-attr]
    behind = EnhancedAgentMemory(long_term=SqliteStore(Place(redact=True)), vector_store=vectors)
    behind.remember(f"then {OTHER}", key=OTHER)
    assert OTHER not in str(list(vectors.items()))


def test_two_places_of_one_folder_keep_to_what_each_says(tmp_path: Path) -> None:
    redacting = EnhancedAgentMemory(Place(tmp_path, redact=True), vector=False)
    plain = EnhancedAgentMemory(tmp_path, vector=False)
    plain.remember(MAIL, key="plain")
    redacting.remember(MAIL, key="redacted")
    assert plain.get("plain").value == MAIL  # type: ignore[union-attr]
    assert plain.get("redacted").value != MAIL  # type: ignore[union-attr]


def test_a_tool_of_such_a_place_refuses_to_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ToolStateError, match="more than a folder or URL says"):
        RecallTool(Place(tmp_path, redact=True)).to_dict()


def test_a_text_that_knows_its_tools_is_trusted_no_more_when_redacted() -> None:
    class Told(str):
        tools = ("web_search",)

    memory = EnhancedAgentMemory(Place(redact=True), vector=False)
    memory.remember(Told(f"Always ask {MAIL}."), key="k")
    found = memory.get("k")
    assert found is not None
    assert (found.trust, found.tools) == (0, ("web_search",))


def test_what_is_refused_quotes_nothing() -> None:
    memory = EnhancedAgentMemory(Place(redact=True), vector=False)
    for item in ({"text": f"ask {MAIL}", "wrong": MAIL}, {"text": "x", "importance": MAIL}, {"text": [MAIL]}):
        with pytest.raises(UnsupportedValueError) as raised:
            memory.remember_many([item])
        assert MAIL not in str(raised.value)


def test_what_stands_in_the_prompt_is_not_recalled_though_memory_says_it_otherwise() -> None:
    memory = EnhancedAgentMemory(Place(redact=True), vector=False, auto_recall=3)
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)")] * 2), verbosity_level=0)
    memory.attach(agent)
    memory.remember(f"The cook of the kitchen in the harbour is {MAIL}.")
    task = f"The cook of the kitchen in the harbour is {MAIL}. Who cooks?"
    agent.run(task)
    assert not any(getattr(step, "kind", "") == "recalled" for step in agent.memory.steps)


def test_what_a_run_taught_holds_no_half_of_a_value_where_it_was_cut() -> None:
    memory = EnhancedAgentMemory(Place(redact=True), vector=False)
    account = "DE89 3704 0044 0532 0130 00"
    for before in range(280, 360, 6):
        page = f"{'a b ' * (before // 4)} {account} {'c d ' * 300}"
        script = [code(f"print('{page}')"), code("final_answer('done')")]
        agent = CodeAgent([], ScriptedModel(script), verbosity_level=0)
        with memory.attach(agent):
            agent.run(f"Read page {before}.")
        memory.detach()
    learnt = str(list(memory.items()))
    assert "Read page 280" in learnt
    assert not any(account[:length] in learnt for length in (7, 9, 14, 19))


# -- reports -------------------------------------------------------------------------------------------------------


def steps() -> list[Any]:
    made = ActionStep(step_number=1, timing=None, observations=f"it is {MAIL}", model_output=f"I ask {OTHER}")
    return [TaskStep(f"Find {MAIL}"), made]


def test_reports_and_traces_are_redacted_where_that_is_asked_for(tmp_path: Path) -> None:
    assert MAIL in to_markdown(steps())
    for told in (to_markdown(steps(), redact=True), str(reasoning(steps(), redact=REDACTOR))):
        assert MAIL not in told
        assert OTHER not in told
    assert to_markdown(steps(), redact=lambda text: "nothing") == "nothing"


def test_reports_of_a_place_that_redacts_are_redacted_by_themselves(tmp_path: Path) -> None:
    agent = CodeAgent([], ScriptedModel([code(f"final_answer('{OTHER}')")]), verbosity_level=0)
    session = Session("s", Place(tmp_path, redact=True))
    with session.attach(agent):
        session.run(f"Ask {MAIL}.")
    for source in (session, agent):
        assert MAIL not in to_markdown(source)
        assert OTHER not in str(reasoning(source))
        assert MAIL in to_markdown(source, redact=False)
    assert MAIL in session.steps()[0].task  # type: ignore[attr-defined]  # the journal itself was not asked for


def test_attributes_of_spans_are_redacted() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    memory = EnhancedAgentMemory(Place(redact=True), vector=False)
    told = lambda event: {"query": f"{event.data.get('query')} {MAIL}", "all": [OTHER]}  # noqa: E731
    stop = trace_events(memory, tracer_provider=provider, attributes=told)
    memory.recall(f"who is {MAIL}?")
    stop()
    [span] = exporter.get_finished_spans()
    assert MAIL not in str(dict(span.attributes))
    assert OTHER not in str(dict(span.attributes))


# -- what the model sees -------------------------------------------------------------------------------------------


def test_the_model_sees_placeholders_and_the_journal_keeps_the_original(tmp_path: Path) -> None:
    script = [code(f"print('{MAIL}')"), code(f"print('{OTHER}' + 1)"), code("final_answer('done')")]
    agent = CodeAgent([], ScriptedModel(script), verbosity_level=0, step_callbacks=everywhere(RedactPrompt()))
    session = Session("s", tmp_path)
    with session.attach(agent):
        session.run(f"Ask {MAIL}.")
        assert not any(mail in call.text for call in agent.model.calls[1:] for mail in (MAIL, "nordwind"))
        originals = str([each.original for each in session.transcript()])
        assert MAIL in originals
        assert OTHER in originals
    assert MAIL not in str([step.to_messages() for step in Session("s", tmp_path).steps()])


def test_the_prompt_has_the_placeholders_that_memory_has() -> None:
    memory = EnhancedAgentMemory(Place(redact=True), vector=False, learn=False)
    agent = CodeAgent(
        [], ScriptedModel([code(f"print('{MAIL}')"), code("final_answer(1)")]), verbosity_level=0,
        step_callbacks=[RedactPrompt()],
    )  # fmt: skip
    memory.attach(agent)
    memory.remember(f"ask {MAIL}", key="k")
    agent.run("Go.")
    placeholder = PLACEHOLDER.search(memory.get("k").value)  # type: ignore[union-attr]
    assert placeholder is not None
    assert placeholder[0] in agent.memory.steps[1].observations


def test_an_error_says_as_much_as_it_may() -> None:
    agent = CodeAgent([], ScriptedModel([]), verbosity_level=0)
    error = AgentExecutionError(f"no {MAIL} here", agent.logger)
    step = ActionStep(step_number=1, timing=None, error=error)
    RedactPrompt()(step)
    assert type(step.error) is AgentExecutionError
    assert MAIL not in f"{step.error} {step.error.message} {step.to_messages()}"
    assert MAIL in str(error)


@pytest.mark.parametrize("turned", [False, True])
def test_in_any_order_with_what_adds_and_what_cuts(turned: bool) -> None:
    others = [AddContext(lambda step: f"on call: {OTHER}", label="desk"), RedactPrompt(), TruncateObservations(200)]
    callbacks = others[::-1] if turned else others
    script = [code(f"print('{MAIL} ' * 2)")] * 4 + [code("final_answer(1)")]
    agent = CodeAgent([], ScriptedModel(script), verbosity_level=0, step_callbacks=callbacks)
    agent.run("Go.")
    for step in agent.memory.steps[1:-1]:
        assert MAIL not in str(step.to_messages())
        assert OTHER not in str(step.to_messages()) or step is agent.memory.steps[-2]
        assert step.observations.count("desk") == 1


def test_what_callbacks_added_is_still_told_from_what_came_back() -> None:
    step = ActionStep(step_number=1, timing=None, observations="it rains")
    AddContext(lambda step: f"on call: {OTHER}", label="desk")(step)
    RedactPrompt()(step)
    assert OTHER not in step.observations
    assert returned_text(step) == "it rains"


def test_steps_in_which_there_is_nothing_are_left_the_very_same() -> None:
    made = [ActionStep(step_number=n, timing=None, observations="nothing", model_output="x") for n in range(3)]
    before = [dict(step.__dict__) for step in made]
    for step in made:
        RedactPrompt()(step)
    assert all(step.__dict__[name] is held[name] for step, held in zip(made, before, strict=True) for name in held)


# -- the journal ---------------------------------------------------------------------------------------------------


def test_what_is_restored_is_the_redacted_text_and_variables_that_held_it_are_named_as_lost(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=Redactor(journal=True))
    lines = f"x = '{MAIL}'\ny = [3]\nz = {{'a': ['{MAIL}']}}\nb = b'{MAIL}'\npassword = 'vN3xQ8rT2mK7wL5z'"
    lines += "\ntokens = [password]"
    script = [code(f"{lines}\ndef f():\n    return '{MAIL}'"), code("final_answer(y)")]
    agent = CodeAgent([], ScriptedModel(script), verbosity_level=0)
    lost = pytest.warns(MemoryLossWarning, match="holds what is redacted: b, f, password, tokens, x, z")
    with lost, Session("s", place).attach(agent) as session:
        session.run(f"Ask {OTHER}.")
    again = CodeAgent([], ScriptedModel([code("final_answer([*y, 'x' in globals()])")]), verbosity_level=0)
    restored = Session("s", place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was said once is not said at each restoring
        restored.attach(again)
    try:
        assert again.memory.steps[0].task.startswith("Ask [EMAIL_")
        assert "y" in again.python_executor.state
        assert not {"x", "z", "b", "f", "password", "tokens"} & set(again.python_executor.state)
        missing = restored._attachment.report.missing  # type: ignore[union-attr]
        assert set(missing) == {"x", "z", "b", "f", "password", "tokens"}
        assert OTHER not in str(missing)
    finally:
        restored.detach()
    [run] = Session("s", place).runs()
    assert MAIL not in run.task


def test_state_that_held_something_is_named_as_lost(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=Redactor(journal=True))
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)")]), verbosity_level=0)
    with (
        pytest.warns(MemoryLossWarning, match="redacted: password") as said,
        Session("s", place).attach(agent) as session,
    ):
        session.run("Go.", additional_args={"who": [MAIL], "n": 5, "password": "vN3xQ8rT2mK7wL5z"})
    assert any("redacted: who" in str(each.message) for each in said)
    again = CodeAgent([], ScriptedModel([]), verbosity_level=0)
    with Session("s", place).attach(again):
        assert again.state == {"n": 5}


def test_an_edit_is_journaled_once_and_nothing_that_only_was_redacted_is_taken_for_one(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=Redactor(journal=True))
    agent = CodeAgent([], ScriptedModel([code(f"print('{MAIL}')"), code("final_answer(1)")]), verbosity_level=0)
    with Session("s", place).attach(agent) as session:
        session.run("Go.")
        session.flush()
        before = len(session.transcript())
        rows = _records(place)
        session.flush()
        agent.memory.flush()
        assert (_records(place), len(session.transcript())) == (rows, before)
        agent.memory.steps[1].observations += f" and {OTHER}"
        session.flush()
        assert _records(place) == rows + 1
    told = str(Session("s", place).steps()[1].observations)  # type: ignore[attr-defined]
    assert OTHER not in told
    assert told.count("[EMAIL_") == 2


def _records(place: Place) -> int:
    with Database.at(place).reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM session_records").scalar() or 0)


def test_saving_the_same_memory_again_writes_no_step_twice(tmp_path: Path) -> None:
    from smolagents_memory import SessionManager

    place = Place(tmp_path, redact=Redactor(journal=True))
    agent = CodeAgent([], ScriptedModel([code(f"final_answer('{MAIL}')")]), verbosity_level=0)
    agent.run("Go.")
    manager = SessionManager(place)
    manager.save_session(agent, "s")
    rows = _records(place)
    manager.save_session(agent, "s")
    assert _records(place) == rows


def test_a_typed_state_comes_back_with_placeholders_or_is_not_kept(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=Redactor(journal=True))

    def session_of() -> Session:
        return Session("s", place).attach(CodeAgent([], ScriptedModel([]), verbosity_level=0))

    with session_of() as session:
        state = TypedMemory({"mail": ""}, name="desk")
        session.keep(state)
        with pytest.warns(MemoryLossWarning, match="it comes back with placeholders"):
            state.update(lambda value: {"mail": MAIL})
        assert state.get() == {"mail": MAIL}
    with session_of() as session:
        state = TypedMemory({"mail": ""}, name="desk")
        session.keep(state)
        assert PLACEHOLDER.fullmatch(state.get()["mail"])


class Shown:
    """What cannot be kept, and says what is in it."""

    def __repr__(self) -> str:
        return f"<asks {MAIL}>"


def test_values_that_are_texts_of_other_kinds_are_redacted_and_come_back(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    place = Place(tmp_path, redact=Redactor(journal=True))
    output = {
        "array": numpy.array([MAIL, "b"]), "bytes": numpy.array([MAIL.encode(), b"b"]),
        "scalar": numpy.array([MAIL])[0], "shown": Shown(),
        "frame": pandas.DataFrame({"mail": [MAIL, None], "n": [1, 2]}), "odd": object(), MAIL: (MAIL.encode(), {MAIL}),
        "error": ValueError(f"no {MAIL}"), "bad": {MAIL: object()}, "path": Path(f"/tmp/{MAIL}"),
    }  # fmt: skip
    step = ActionStep(step_number=1, timing=None, action_output=output)
    agent = CodeAgent([], ScriptedModel([]), verbosity_level=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Session("s", place).attach(agent):
            agent.memory.steps.append(step)
        back = Session("s", place).steps()[0].action_output  # type: ignore[attr-defined]
    assert MAIL not in str(back)
    assert back["array"].tolist()[1] == "b"
    assert back["frame"]["n"].tolist() == [1, 2]
    assert isinstance(back["error"], ValueError)


def test_a_function_is_asked_once_for_what_every_step_of_a_journal_has(tmp_path: Path) -> None:
    asked: list[str] = []

    def finds(text: str) -> list[Any]:
        asked.append(text)
        return []

    place = Place(tmp_path, redact=Redactor([], also=[finds], journal=True))
    script = [*[code("print('a page')")] * 5, code("final_answer(1)")]
    agent = CodeAgent([], ScriptedModel(script), verbosity_level=0)
    with Session("s", place).attach(agent) as session:
        session.run("Go.")
    assert asked.count("user") <= 1
    assert asked.count("print('a page')") <= 2


def test_who_only_asks_writes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=True)
    memory = EnhancedAgentMemory(place, vector=False)
    memory.remember("The tea is in the kitchen.")
    assert memory.recall(f"does {MAIL} know where the tea is?")
    assert memory.get(MAIL) is None
    with Database.at(place).reading() as connection:
        assert not connection.exec_driver_sql("SELECT value FROM memory_about WHERE name = 'redaction'").all()
