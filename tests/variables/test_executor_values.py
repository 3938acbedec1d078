"""A CodeAgent's variables come back: every kind of value, what they share, and small deltas."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from revived import Life, fresh_agent, lived, revived, value_of
from smolagents import tool
from strategies import values

from smolagents_memory import DecodeError
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.testing import explain_difference
from smolagents_memory.variables.capture import ExecutorCapture, fold, restore_variables


GIVEN: list[Any] = []


@tool
def give() -> Any:
    """Gives a value."""
    return GIVEN[0]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(values, values)
def test_every_value_comes_back_as_it_was(first: Any, second: Any) -> None:
    GIVEN[:] = [[first, second]]
    life = lived("first, second = give()\nn = 0", "both = [second, first, second]\nn = 1", tools=[give])
    agent, report = revived(life)
    assert report.missing == {}
    assert report.note() is None
    was, now = life.state, agent.python_executor.state
    assert explain_difference([was[n] for n in ("first", "both")], [now[n] for n in ("first", "both")]) is None


def test_values_of_every_common_kind() -> None:
    life = lived(
        "import numpy as np\nimport pandas as pd\nfrom collections import deque",
        "from datetime import datetime, timedelta",
        "i, f, s, n, t = 1, float('nan'), 'text', None, (1, [2])\nbig = 10 ** 400\nz = complex(1, 2)",
        "array = np.arange(6).reshape(2, 3)\nframe = pd.DataFrame({'a': [1, 2]})\nwhen = datetime(2026, 1, 2)",
        "later = timedelta(days=1)\nmembers = {1, 2}\nqueue = deque([1], 5)\nnested = {(1, 2): [{'x': {3}}]}",
    )
    agent, report = revived(life, "total = int(array.sum()) + len(frame) + i", "queue.append(total)")
    assert report.missing == {}
    assert value_of(agent, "list(queue)") == [1, 18]
    for name in ("i", "f", "s", "n", "t", "big", "z", "array", "frame", "when", "later", "members", "nested"):
        assert explain_difference(life.state[name], agent.python_executor.state[name]) is None, name


def test_large_bytes_and_pictures_lie_in_the_blobs_and_only_those_that_are_kept() -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8))
    GIVEN[:] = [[picture, b"x" * 3000]]
    life = lived("picture, data = give()", "import socket", "lost = [b'y' * 3000, socket.socket()]", tools=[give])
    assert len(life.blobs.data) == 2
    assert len(json.dumps(life.deltas)) < 1500
    agent, _ = revived(life)
    assert explain_difference(picture, agent.python_executor.state["picture"]) is None
    assert agent.python_executor.state["data"] == b"x" * 3000


# -- what variables share ------------------------------------------------------------------------------------------


def test_aliases_stay_aliases_also_when_they_were_made_in_different_steps() -> None:
    life = lived("a = []", "b = a", "c = {'a': a}\nrows = [{'n': 1}, {'n': 2}]", "for row in rows:\n    last = row")
    agent, _ = revived(life, "a.append(1)\nlast['n'] = 9")
    state = agent.python_executor.state
    assert state["b"] is state["a"] is state["c"]["a"] == [1]
    assert state["rows"][1] is state["row"] is state["last"] == {"n": 9}


def test_an_alias_that_ended_is_none_and_what_is_left_of_it_comes_back() -> None:
    life = lived("a = [1]\nb = a\nring = []\nring.append(ring)", "a = [1]", "del ring", "b.append(2)")
    agent, _ = revived(life)
    state = agent.python_executor.state
    assert (state["a"], state["b"]) == ([1], [1, 2])
    assert "ring" not in state


def test_a_ring_comes_back_as_a_ring() -> None:
    agent, _ = revived(lived("ring = {}\nring['self'] = (ring, [ring])"))
    ring = agent.python_executor.state["ring"]
    assert ring["self"][0] is ring["self"][1][0] is ring


def test_very_deep_values_come_back() -> None:
    life = lived("deep = []\nfor i in range(3000):\n    deep = [deep]\ni = 0", "other = [deep]\ni = 1")
    agent, report = revived(life)
    assert report.missing == {}
    assert explain_difference(life.state["other"], agent.python_executor.state["other"]) is None
    assert agent.python_executor.state["other"][0] is agent.python_executor.state["deep"]


def test_a_long_chain_of_objects_comes_back() -> None:
    life = lived(
        "class Node:\n    def __init__(self, before):\n        self.before = before",
        "last = None\nfor i in range(3000):\n    last = Node(last)",
    )
    agent, report = revived(life)
    assert report.missing == {}
    node, count = agent.python_executor.state["last"], 0
    while node is not None:
        node, count = node.before, count + 1
    assert count == 3000


# -- deltas --------------------------------------------------------------------------------------------------------


def test_a_delta_holds_what_changed_only() -> None:
    life = lived(
        "rows = [{'id': i, 'text': 'some text ' * 5} for i in range(500)]\nx = 1",
        "x = 2",
        "rows.append({'id': -1, 'text': 'new'})",
        "rows[7]['id'] = 'seven'",
        "row = rows[3]",
        "print(len(rows))",
    )
    sizes = [len(json.dumps(delta)) for delta in life.deltas]
    assert len(sizes) == 5  # printing changes nothing
    assert sizes[0] > 20_000
    assert max(sizes[1:]) < 400
    assert life.deltas[1] == {"edits": [["=", ["variables", "x"], 2]]}
    agent, _ = revived(life)
    assert explain_difference(life.state["rows"], agent.python_executor.state["rows"]) is None
    assert agent.python_executor.state["row"] is agent.python_executor.state["rows"][3]


@pytest.mark.parametrize(
    "change",
    [
        "value['list'].append(1)",
        "value['list'][0] = True",
        "value['deep'][0]['x'] = 2",
        "value['set'].add(5)",
        "value['array'][0] = 9",
        "value['frame'].loc[0, 'a'] = 9",
        "value['objects'][0].append(2)",
        "value['queue'].append(2)",
        "value['data'][0] = 1",
        "value['tuple'][0].append(2)",
        "value['first'] = value.pop('list')",
        "value['zero'] = -value['zero']",
    ],
)
def test_a_change_in_place_is_noticed_wherever_it_is(change: str) -> None:
    GIVEN[:] = [bytearray(b"ab")]
    life = lived(
        "import numpy as np, pandas as pd\nfrom collections import deque\ndata = give()\n"
        "value = {'list': [1], 'deep': [{'x': 1}], 'set': {1}, 'array': np.zeros(3), 'queue': deque([1]), 'zero': 0.0,"
        "'frame': pd.DataFrame({'a': [1]}), 'objects': np.array([[1], None], dtype='O'), 'data': data,"
        "'tuple': ([1],)}",
        "x = 1",
        change,
        tools=[give],
    )
    assert len(life.deltas) == 3
    agent, _ = revived(life)
    assert explain_difference(life.state["value"], agent.python_executor.state["value"]) is None


def test_names_bound_anew_and_deleted() -> None:
    life = lived("x = 1\ny = 2\nz = [1]", "x = 'one'\ndel y", "y = 3\ndel z", "del y")
    agent, report = revived(life)
    assert report.restored == {"x": "variable"}
    assert agent.python_executor.state["x"] == "one"
    assert not {"y", "z"} & agent.python_executor.state.keys()


def test_none_for_one_name_is_not_the_same_as_none_for_another() -> None:
    agent, _ = revived(lived("x = None", "del x\ny = None"))
    assert "x" not in agent.python_executor.state
    assert agent.python_executor.state["y"] is None


def test_deltas_may_be_folded_at_any_point() -> None:
    life = lived(*(f"x{i % 7} = [{i}]\ny = x{i % 7}" for i in range(20)), "del x3", "x4.append(y)")
    whole = fold(life.deltas)
    for cut in range(1, len(life.deltas)):
        assert fold([fold(life.deltas[:cut]), *life.deltas[cut:]]) == whole
    assert fold([]) == {}


def test_a_delta_that_does_not_fit_is_said() -> None:
    life = lived("x = [1]", "x.append(2)")
    with pytest.raises(DecodeError, match="does not fit"):
        fold(life.deltas[1:])


def test_a_session_that_was_resumed_goes_on_and_can_be_resumed_again() -> None:
    life = lived(
        "a = [1]\nb = a\nclass Box:\n    held = []\nbox = Box()\ndef size(x):\n    return len(x)", "n = size(a)"
    )
    second = Life(["a.append(2)\nbox.it = a", "m = size(a)\nBox.held.append(box)", "final_answer(1)"])
    stream = second.agent.run("Go on.", stream=True, reset=False)
    restore_variables(second.agent, life.folded, life.blobs.data)
    list(stream)
    second.deltas[:0] = life.deltas  # one journal
    agent, report = revived(second, "k = size(b)")
    state = agent.python_executor.state
    assert report.missing == {}
    assert state["box"].it is state["a"] is state["b"]
    assert state["Box"].held == [state["box"]]
    assert (state["n"], state["m"], state["k"]) == (1, 2, 2)


# -- what run() sends ----------------------------------------------------------------------------------------------


def test_what_run_sends_is_not_kept_unless_the_code_changed_it() -> None:
    life = Life(["alias = table\nlimit = limit + 1\ndel unused", "rest = table[1:]", "final_answer(1)"])
    life.agent.run("Go on.", additional_args={"table": [[1], [2]], "limit": 5, "unused": "secret", "same": "secret"})
    assert "secret" not in json.dumps(life.deltas)
    arguments = {"table": [[1], [2]], "limit": 5, "unused": "secret", "same": "secret"}
    agent, report = revived(life, additional_args=arguments)
    state = agent.python_executor.state
    assert state["alias"] is state["table"] is arguments["table"]
    assert (state["limit"], state["rest"]) == (6, [[2]])
    assert "unused" not in state
    assert report.missing == {}


def test_what_a_new_run_gives_under_a_name_of_the_agents_own_is_the_newer() -> None:
    life = lived("import socket\nconn = socket.socket()\nlimit = 1")
    agent, report = revived(life, additional_args={"conn": "a new one", "limit": 2})
    assert report.missing == {}
    assert report.restored == {"socket": "import", "conn": "given by this run", "limit": "given by this run"}
    assert (agent.python_executor.state["conn"], agent.python_executor.state["limit"]) == ("a new one", 2)


def test_what_was_bound_before_a_step_failed_is_kept() -> None:
    life = lived("a = [1]\ndef f():\n    return a\nclass A:\n    x = 1\nb = 1 / 0\nc = 1", errors=True)
    agent, report = revived(life)
    assert set(report.restored) == {"a", "f", "A"}
    assert report.missing == {}
    assert value_of(agent, "f() is a") is True


def test_an_alias_of_what_is_not_sent_any_more_is_missing() -> None:
    life = Life(["alias = table", "final_answer(1)"])
    life.agent.run("Go on.", additional_args={"table": [1]})
    _, report = revived(life)
    assert report.missing == {"alias": "it was the same as table, which this run was not given"}


def test_print_logs_and_the_executors_own_entries_do_not_leak() -> None:
    life = lived("print('hush' * 3)\nx = 1", "print('hush')")
    assert "hush" not in json.dumps(life.deltas)
    assert life.folded == {"full": 1, "variables": {"x": 1}}
    agent = fresh_agent([])
    restore_variables(agent, life.folded, {})
    assert "_print_outputs" not in agent.python_executor.state


def test_tools_are_there_for_functions_also_when_restored_before_any_run() -> None:
    life = lived("def size(x):\n    return len(x) + give()", tools=[give])
    GIVEN[:] = [40]
    agent = fresh_agent([], tools=[give])
    restore_variables(agent, life.folded, {})
    assert value_of(agent, "size([1, 2])") == 42


# -- costs ---------------------------------------------------------------------------------------------------------


def _cost(run: Any, times: int = 20) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best


def test_an_unchanged_namespace_of_small_values_costs_next_to_nothing() -> None:
    agent, capture, blobs = fresh_agent([]), ExecutorCapture(), Blobs()
    agent.python_executor.send_tools({})
    agent.python_executor.state.update({f"v{i}": i * 1000 for i in range(100)})
    assert capture.changes(agent, "", blobs) is not None
    assert capture.changes(agent, "", blobs) is None
    assert _cost(lambda: capture.changes(agent, "", blobs)) < 100e-6  # 10 µs on a quiet machine


def test_what_is_too_large_is_never_read() -> None:
    agent, blobs = fresh_agent([]), Blobs()
    agent.python_executor.send_tools({})
    table = pd.DataFrame({name: np.zeros(500_000) for name in "ab"})
    agent.python_executor.state.update(array=np.zeros(13_000_000), many=list(range(1_000_000)), table=table)
    assert _cost(lambda: ExecutorCapture().changes(agent, "", blobs), 5) < 0.01  # reading them takes seconds
    assert blobs.data == {}


@settings(max_examples=70, deadline=None)
@given(st.data())
def test_whatever_the_code_does_the_folded_deltas_are_the_newest_state(data: st.DataObject) -> None:
    agent, capture, blobs, deltas = fresh_agent([]), ExecutorCapture(), Blobs(), []
    agent.python_executor.send_tools({})
    state = agent.python_executor.state
    names = st.sampled_from("abcd")
    for _ in range(data.draw(st.integers(1, 8))):
        name, other = data.draw(names), data.draw(names)
        kind = data.draw(st.sampled_from(["new", "alias", "append", "del", "atom", "pop", "insert", "in"]))
        target = state.get(name)
        if kind == "new":
            state[name] = data.draw(st.lists(st.integers(0, 2) | st.booleans() | st.floats(0, 2), max_size=3))
        elif kind == "atom":
            state[name] = data.draw(st.sampled_from([0, False, 0.0, -0.0, 1, True, 1.0, None]))
        elif kind == "alias" and other in state:
            state[name] = state[other]
        elif kind == "in" and other in state:
            state[name] = {"in": state[other], "also": [state[other]]}
        elif kind == "append" and isinstance(target, list):
            target.append(state.get(other))
        elif kind == "insert" and isinstance(target, list):
            target.insert(0, [state.get(other)])
        elif kind == "pop" and isinstance(target, list) and target:
            target.pop(0)
        elif kind == "del":
            state.pop(name, None)
        delta = capture.changes(agent, "", blobs)
        if delta is not None:
            deltas.append(json.loads(json.dumps(delta, allow_nan=False)))
    again = fresh_agent([])
    report = restore_variables(again, fold(deltas), blobs.data)
    was = {name: state[name] for name in "abcd" if name in state}
    now = {name: again.python_executor.state[name] for name in "abcd" if name in again.python_executor.state}
    assert report.missing == {}
    assert explain_difference(was, {name: now[name] for name in was}) is None
    assert now.keys() == was.keys()
    shared = [name for name in was if isinstance(was[name], (list, dict))]
    assert [[was[a] is was[b] for a in shared] for b in shared] == [[now[a] is now[b] for a in shared] for b in shared]
