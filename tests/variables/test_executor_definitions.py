"""Functions, classes, their instances and imports come back; nothing of the agent's is run again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from revived import Life, fresh_agent, lived, revived, value_of
from smolagents import tool

from smolagents_memory.testing import code
from smolagents_memory.variables.capture import restore_variables


CALLED: list[str] = []


@tool
def act(what: str) -> str:
    """Does something that must not be done twice.

    Args:
        what: What to do.
    """
    CALLED.append(what)
    return what


@pytest.fixture(autouse=True)
def nothing_called_yet() -> None:
    CALLED.clear()


# -- functions -----------------------------------------------------------------------------------------------------


def test_functions_that_call_each_other_and_themselves() -> None:
    life = lived(
        "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)",
        "def even(n):\n    return True if n == 0 else odd(n - 1)",
        "def odd(n):\n    return False if n == 0 else even(n - 1)",
        "rate = 3\ndef scaled(n, by=2, **options):\n    return fact(n) * by * rate + len(options)",
    )
    agent, report = revived(life, "a = scaled(3)", "b = (even(4), scaled(2, 1, x=0))")
    assert set(report.restored) == {"fact", "even", "odd", "scaled", "rate"}
    assert (agent.python_executor.state["a"], agent.python_executor.state["b"]) == (36, (True, 7))


def test_the_newest_of_two_functions_counts_and_the_older_lives_where_it_is_held() -> None:
    life = lived("def f():\n    return 'old'", "held = [f]\ng = f", "def f():\n    return 'new'\nops = {'f': f}")
    agent, report = revived(life)
    assert report.missing == {}
    assert value_of(agent, "[f(), g(), held[0](), ops['f']()]") == ["new", "old", "old", "new"]
    assert value_of(agent, "g is held[0]") is True
    assert value_of(agent, "ops['f'] is f") is True


def test_a_function_hidden_by_a_variable_stays_hidden() -> None:
    agent, report = revived(lived("def x():\n    return 1", "x = x()"))
    assert report.restored == {"x": "variable"}
    assert agent.python_executor.state["x"] == 1


def test_decorators_which_the_executor_ignores_are_not_run_by_restoring_either() -> None:
    life = lived("def twice(f):\n    act('decorated')\n    return f\n@twice\ndef f():\n    return 1", tools=[act])
    agent, report = revived(life, tools=[act])
    assert set(report.restored) == {"twice", "f"}
    assert value_of(agent, "f()") == 1
    assert CALLED == []


def test_a_function_whose_defaults_call_something_is_missing_unless_it_only_makes_a_value() -> None:
    life = lived(
        "def good(best=float('-inf'), seen=set(), *, more=dict()):\n    return best",
        "def bad(x=act('default')):\n    return x",
        "def worse(*, x=[act('default')]):\n    return x",
        tools=[act],
    )
    agent, report = revived(life, tools=[act])
    assert report.missing == {"bad": "its defaults call act(...)", "worse": "its defaults call act(...)"}
    assert value_of(agent, "good()") == float("-inf")
    assert CALLED == []


def test_lambdas_and_closures_are_named_and_functions_inside_functions_are_no_noise() -> None:
    life = lived(
        "square = lambda x: x * x",
        "def adder(n):\n    def inner(x):\n        return x + n\n    return inner\nadd = adder(3)",
        "many = [1, lambda: 2]",
        "from math import sqrt\nroots = [sqrt]",
    )
    agent, report = revived(life)
    assert set(report.restored) == {"adder", "sqrt"}
    assert report.missing["square"] == "a lambda cannot be brought back"
    assert "a closure" in report.missing["add"]
    assert report.missing["many"] == "inside it, a lambda cannot be brought back"
    assert "builtin_function_or_method" in report.missing["roots"]
    assert "inner" not in report.missing
    assert value_of(agent, "adder(1)(2)") == 3


# -- classes -------------------------------------------------------------------------------------------------------


def test_a_class_its_instances_and_what_it_counted() -> None:
    life = lived(
        "class Account:\n    'An account.'\n    opened = 0\n    all = []\n    def __init__(self, owner):\n"
        "        self.owner = owner\n        self.lines = []\n        Account.opened += 1\n"
        "        Account.all.append(self)\n"
        "        act('opened ' + owner)\n"
        "    def add(self, line):\n        self.lines.append(line)\n        return len(self.lines)",
        "ann = Account('ann')\nbob = Account('bob')\npeople = {'ann': ann}",
        "ann.add('first')\nbooks = Account.all",
        tools=[act],
    )
    CALLED.clear()
    agent, report = revived(life, "count = people['ann'].add('second')", "carl = Account('carl')", tools=[act])
    state = agent.python_executor.state
    assert CALLED == ["opened carl"]  # __init__ of the restored ones did not run again
    assert report.missing == {}
    assert report.restored["Account"] == "class"
    assert (state["count"], state["Account"].opened) == (2, 3)
    assert state["people"]["ann"] is state["ann"] is state["books"][0]
    assert [each.owner for each in state["books"]] == ["ann", "bob", "carl"]
    assert type(state["bob"]) is state["Account"]


def test_a_class_with_a_call_in_its_body_is_reported_and_not_run() -> None:
    life = lived(
        "class Bad:\n    started = act('started')\n    def go(self):\n        return act('going')",
        "one = Bad()\nclass Worse(Bad):\n    pass\nnumbers = [1, one]",
        tools=[act],
    )
    assert CALLED == ["started"]
    agent, report = revived(life, tools=[act])
    assert CALLED == ["started"]
    assert report.missing["Bad"] == "its class body calls act(...)"
    assert report.missing["Worse"] == "its base Bad cannot be brought back: its class body calls act(...)"
    assert report.missing["one"].startswith("an object of the class Bad, which cannot be brought back")
    assert report.missing["numbers"].startswith("inside it, an object of the class Bad")
    assert "Bad" not in agent.python_executor.state


def test_calls_inside_methods_are_no_obstacle_and_do_not_run() -> None:
    life = lived("class Doer:\n    limit = 1 + 1\n    def go(self):\n        return act('going')", tools=[act])
    agent, report = revived(life, "done = Doer().go()", tools=[act])
    assert CALLED == ["going"]
    assert report.missing == {}
    assert agent.python_executor.state["Doer"].limit == 2


def test_values_of_a_class_body_are_not_worked_out_again() -> None:
    life = lived(
        "class Trap:\n    def __add__(self, other):\n        return act('added')\ntrap = Trap()\nbase = [1]",
        "class User:\n    total = trap + 1\n    shared = base\n    text = f'{base}'",
        "base.append(2)\ndel trap",
        tools=[act],
    )
    CALLED.clear()
    agent, report = revived(life, tools=[act])
    assert CALLED == []
    assert report.missing == {}
    user = agent.python_executor.state["User"]
    assert (user.total, user.text) == ("added", "[1]")
    assert user.shared is agent.python_executor.state["base"] == [1, 2]


def test_a_class_whose_subclasses_would_call_it_is_refused() -> None:
    life = lived(
        "class Base:\n    def __init_subclass__(cls):\n        act('registered')",
        "class Sub(Base):\n    pass",
        tools=[act],
    )
    assert CALLED == ["registered"]
    _, report = revived(life, tools=[act])
    assert CALLED == ["registered"]
    assert report.missing["Base"] == "its method __init_subclass__ would run again when its subclasses are defined"
    assert "its base Base cannot be brought back" in report.missing["Sub"]


def test_a_base_that_is_gone_is_not_replaced_by_one_that_looks_like_it() -> None:
    life = lived(
        "from collections import UserDict, UserList",
        "class Mine(UserList):\n    pass\nUserLists = 1",
        "del UserList",
    )
    agent, report = revived(life)
    assert report.missing == {"Mine": "Mine could not be defined again: UserList is not defined"}
    assert "Mine" not in agent.python_executor.state


def test_inheritance_aliases_of_classes_and_a_class_defined_twice() -> None:
    life = lived(
        "class A:\n    def who(self):\n        return 'old A'",
        "class B(A):\n    pass\nBase = A\nb = B()",
        "class A:\n    def who(self):\n        return 'new A'\na = A()\nclass C(Base):\n    pass",
        "c = C()\ndel B",
    )
    agent, report = revived(life)
    assert report.missing == {}
    assert value_of(agent, "[a.who(), b.who(), c.who(), Base().who(), A().who()]") == [
        *("new A", "old A", "old A", "old A", "new A")
    ]
    assert "B" not in agent.python_executor.state
    assert type(agent.python_executor.state["b"]).__mro__[1] is agent.python_executor.state["Base"]


def test_classes_built_on_pythons_own_types() -> None:
    life = lived(
        "class Stack(list):\n    def append(self, x):\n        act('appended')\n        return 1\n"
        "class Table(dict):\n    pass\nclass Name(str):\n    pass\nclass Oops(ValueError):\n    pass",
        "class Bag(set):\n    pass",
        "stack = Stack([1, 2])\nstack.label = 'top'\ntable = Table(a=stack)\nname = Name('ann')\nbag = Bag([1])",
        "try:\n    raise Oops('wrong', 3)\nexcept Oops as error:\n    caught = error",
        "stack.extend([table])",
        tools=[act],
    )
    CALLED.clear()
    agent, report = revived(life, tools=[act])
    state = agent.python_executor.state
    assert report.missing == {}
    assert CALLED == []
    assert (state["stack"][:2], state["stack"].label) == ([1, 2], "top")
    assert state["stack"][2] is state["table"]
    assert state["table"]["a"] is state["stack"]
    assert (state["name"], type(state["name"])) == ("ann", state["Name"])
    assert (state["caught"].args, type(state["caught"])) == (("wrong", 3), state["Oops"])
    assert (set(state["bag"]), type(state["bag"])) == ({1}, state["Bag"])


def test_dataclasses_named_tuples_and_abstract_classes() -> None:
    life = lived(
        "from dataclasses import dataclass\nfrom collections import namedtuple\nfrom abc import ABC\nLIMIT = 7",
        "class Point:\n    x: int\n    y: int = LIMIT\nPoint = dataclass(frozen=True)(Point)",
        "p = Point(1)\nplaces = {p: 'home'}",
        "Pair = namedtuple('Pair', 'left right', defaults=[5])\npair = Pair([p])",
        "class Shape(ABC):\n    def area(self):\n        return 4\nshape = Shape()",
    )
    agent, report = revived(life)
    assert report.missing == {}
    assert value_of(agent, "[places[Point(1)], Point(2).y, pair.left[0] is p, Pair(1).right, shape.area()]") == [
        *("home", 7, True, 5, 4)
    ]
    assert value_of(agent, "Point(1) == p") is True


def test_enums() -> None:
    life = Life(
        [
            "from enum import Enum\nclass Colour(Enum):\n    RED = 1\n    BLUE = ('b', 2)\nit = [Colour.BLUE]",
            "final_answer(1)",
        ]
    )
    life.agent.run("Go on.")
    if "Colour" not in life.state:
        pytest.skip("this smolagents cannot make enums")
    agent, report = revived(life)
    assert report.missing == {}
    assert value_of(agent, "it[0] is Colour.BLUE") is True


def test_what_hangs_on_a_class_or_an_object_later_comes_too() -> None:
    life = lived(
        "class Node:\n    root = None\n    def __init__(self):\n        self.next = None",
        "first = Node()\nsecond = Node()\nfirst.next = second\nsecond.next = first\nNode.root = first",
        "def shout(self):\n    return 'loud'\nNode.shout = shout\nNode.added = [1]",
    )
    agent, report = revived(life)
    assert report.missing == {}
    assert value_of(agent, "Node.root is first and first.next.next is first") is True
    assert value_of(agent, "second.shout() + str(Node.added)") == "loud[1]"


def test_a_class_made_by_a_function_or_by_another_step_than_was_seen() -> None:
    life = lived("def make():\n    class Inner:\n        x = 1\n    return Inner\nMade = make()\nit = Made()")
    _, report = revived(life)
    assert report.missing["Made"] == "its source could not be found"
    assert "its source could not be found" in report.missing["it"]

    late = Life([], max_steps=3)
    agent = fresh_agent([code("class Early:\n    x = 1\ne = Early()"), code("final_answer(1)")])
    agent.run("Go on.")
    late.keep(agent.memory.steps[-1], agent)  # attached only now: the source is in the agent's memory
    revived_agent, report = revived(late)
    assert report.missing == {}
    assert value_of(revived_agent, "e.x") == 1


def test_objects_with_slots_or_built_on_something_foreign_are_named() -> None:
    life = lived(
        "import queue\nclass Slim:\n    __slots__ = ('x',)\nslim = Slim()\nslim.x = 1\n"
        "class Mine(queue.Queue):\n    pass\nmine = Mine()",
    )
    agent, report = revived(life)
    assert "__slots__" in report.missing["slim"]
    assert "_thread" in report.missing["mine"]
    assert {"Slim", "Mine"} <= agent.python_executor.state.keys()


def test_methods_that_the_executor_lists_among_the_functions_are_not_restored_as_such() -> None:
    life = lived("class A:\n    def run(self):\n        return 1\na = A()", "del A\ndel a")
    assert life.folded == {"full": 1}


# -- imports -------------------------------------------------------------------------------------------------------


def test_imports_as_they_were_bound() -> None:
    life = lived(
        "import math\nimport numpy as np\nimport collections.abc\nfrom collections import deque as dq, Counter",
        "if True:\n    import random\nfrom statistics import *\npi = math.pi\nm = math",
        "def inside():\n    import itertools\n    return 1\nfrom math import e, tau\ntau = 5",
    )
    agent, report = revived(life, "x = np.zeros(2).sum() + len(dq([1])) + m.floor(pi) + mean([1, 1]) + tau")
    assert agent.python_executor.state["x"] == 10
    assert report.missing == {}
    assert report.restored["tau"] == report.restored["pi"] == "variable"
    assert life.folded["imports"]["dq"] == "from collections import deque as dq"
    assert life.folded["imports"]["e"] == "from math import e"
    assert "itertools" not in report.restored


def test_an_import_that_is_not_authorised_any_more_is_missing() -> None:
    life = lived("import numpy as np\nfrom functools import reduce\nx = 1")
    agent, report = revived(life, additional_authorized_imports=[])
    assert "'import numpy as np' failed: Import of numpy is not allowed" in report.missing["np"]
    assert "reduce" in report.missing
    assert report.restored == {"x": "variable"}
    assert "np" not in agent.python_executor.state


# -- a journal that was tampered with ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    x = act('body')",
        "def A(x=act('default')):\n    pass",
        "act('plain')",
        "def A():\n    pass\nact('after')",
        "class A(act('base')):\n    pass",
        "class A:\n    y[0] = 1",
    ],
)
def test_a_definition_that_would_call_something_is_refused_on_restoring_too(source: str) -> None:
    folded: dict[str, Any] = {
        "full": 1,
        "variables": {"A": {"$": "own-class", "d": 1}},
        "definitions": {"1": {"kind": "class", "name": "A", "source": source}},
        "imports": {"z": "act('import')"},
    }
    agent = fresh_agent([], tools=[act])
    report = restore_variables(agent, json.loads(json.dumps(folded)), {})
    assert CALLED == []
    assert set(report.missing) == {"A", "z"}
    assert report.restored == {}
