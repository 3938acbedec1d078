"""The house itself: its layers, its public names, what importing it costs, and that its examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stub import PATH, stub

import smolagents_memory


PACKAGE = Path(smolagents_memory.__file__).parent
ROOT = Path(__file__).parent.parent

FOUNDATION = {
    "_brief",
    "_events",
    "_errors",
    "_files",
    "_forks",
    "_json",
    "_listener",
    "_locks",
    "_log",
    "_progress",
    "_telling",
    "_turns",
    "_version",
}
USERS = {"demo", "examples"}  # of the package: they import its public names alone


def drawing() -> list[str]:
    """The rooms from top to bottom, as docs/architecture.md draws them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page[page.index("## The rooms") :].split("```")[1]
    return re.findall(r"^ ([a-z]+) {2,}\S", drawn, re.MULTILINE)


def modules() -> list[str]:
    found = [name for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "smolagents_memory.")]
    return [name for name in found if ".migrations" not in name]


def room(module: str) -> str:
    return (module.split(".") + [""])[1]


def imports(module: str) -> list[tuple[int, str]]:
    """The modules that a module imports, by their lines."""
    path = PACKAGE.parent / Path(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            named = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "smolagents_memory" else []
            )
            found += [(node.lineno, name) for name in (named or [node.module or ""])]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
    return [(line, name) for line, name in found if name.split(".")[0] == "smolagents_memory"]


@pytest.mark.parametrize("module", modules())
def test_imports_go_down_the_house_only(module: str) -> None:
    """Also between neighbours: each room imports what the drawing has below it, and users the public names alone."""
    order = {name: level for level, name in enumerate([*drawing(), *FOUNDATION])}
    order |= dict.fromkeys(FOUNDATION, len(order))
    mine = room(module)
    for line, name in imports(module):
        theirs = room(name)
        if theirs == mine or name == "smolagents_memory":
            continue
        public = theirs in smolagents_memory.__all__
        if mine in USERS:
            assert public or theirs == "testing", f"{module}:{line} imports {name}: a user takes public names alone"
        elif theirs not in order:
            assert mine == "cli", f"{module}:{line} imports {name} from the top of the package: name the module"
        else:
            assert order[mine] <= order[theirs], f"{module}:{line} imports {name}"


def test_the_drawing_of_the_house_shows_its_rooms() -> None:
    there = {room(module) for module in modules()}
    assert set(drawing()) == there - FOUNDATION
    assert len(drawing()) == len(set(drawing()))


STEPS = {"MemoryStep", "ActionStep", "TaskStep", "PlanningStep", "SystemPromptStep", "FinalAnswerStep", "NoteStep"}


def test_what_a_step_is_stands_in_one_table() -> None:
    """Outside steps/ hardly anybody asks for a class: who does, asks `steps/kinds.py`."""
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "steps"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and STEPS & {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
    ]
    assert len(asked) <= 15, asked


def test_the_rooms_are_small_and_a_name_is_given_once() -> None:
    names = [path.stem for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts]
    assert sorted({name for name in names if names.count(name) > 1}) == ["__init__"]
    assert len(list((PACKAGE / "sessions").glob("*.py"))) <= 18


def test_public_names_are_sorted_and_all_of_them_can_be_had() -> None:
    assert list(smolagents_memory.__all__) == sorted(smolagents_memory.__all__)
    for name in smolagents_memory.__all__:
        value = getattr(smolagents_memory, name)
        assert name == "__version__" or value.__name__.strip("_") == name
        assert name in dir(smolagents_memory)
    assert set(smolagents_memory._HOME_OF) | {"__version__"} == set(smolagents_memory.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        smolagents_memory.no_such_name  # noqa: B018


def test_editors_are_told_of_the_same_names() -> None:
    assert PATH.read_text(encoding="utf-8") == stub(), "python tests/stub.py"


def test_every_public_name_says_what_it_is() -> None:
    for name in smolagents_memory.__all__:
        assert name == "__version__" or (getattr(smolagents_memory, name).__doc__ or "").strip(), name


def imported(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    found = imported("import smolagents_memory")
    assert not found & {"smolagents", "chromadb", "sqlalchemy", "alembic", "numpy", "pandas", "PIL", "rich", "typer"}


def test_saving_and_loading_import_neither_databases_nor_pandas() -> None:
    theirs = imported("import smolagents")
    found = imported("from smolagents_memory import load_memory, save_memory, ObservedMemory")
    assert not (found - theirs) & {"chromadb", "sqlalchemy", "alembic", "numpy", "pandas"}


@pytest.mark.parametrize("module", ["smolagents_memory", *modules()])
def test_examples_in_docstrings_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(importlib.import_module(module), optionflags=options).failed == 0


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_python_on_the_pages_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "page"}
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        # without this module's own `from __future__`, which would be handed down to the page
        exec(compile("\n" * line + block.group(1), str(page), "exec", dont_inherit=True), space)
    assert space["__name__"] == "page"


def test_the_tests_run_against_the_installed_package_where_that_is_asked_for() -> None:
    wanted = os.environ.get("SMOLAGENTS_MEMORY_INSTALLED")
    assert not wanted or "site-packages" in str(PACKAGE)
