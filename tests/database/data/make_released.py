"""Makes `schema_<newest>.db` in this folder, once, when a schema is released: run it as a script.

The tests open a copy of each of these files for ever after. Never make an old one again.
"""

from __future__ import annotations

import sys
from pathlib import Path


HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent.parent.parent)]

from agents import code_agent, photo  # noqa: E402

from smolagents_memory import EnhancedAgentMemory, Session, SessionManager  # noqa: E402
from smolagents_memory.database import tables  # noqa: E402
from smolagents_memory.testing import code  # noqa: E402


def main() -> None:
    target = HERE / f"schema_{tables.HEAD}.db"
    if target.exists():
        sys.exit(f"{target.name} is there already: a released schema does not change")
    url = f"sqlite:///{HERE / 'making.db'}"
    script = [
        code("kept = 42\ndef twice(n):\n    return 2 * n\nprint('forty', kept)"),
        code("final_answer(kept)"),
    ]
    agent = code_agent(script, planning_interval=None)
    agent.state["user"] = "someone"
    with Session("released", url).attach(agent):
        agent.run("Remember it.", images=[photo()])
        agent.memory.steps[1].observations = "forty, and shaped by a callback"
    with EnhancedAgentMemory(url, vector=False) as memory:
        memory.remember("Ann likes tea.", key="tea", meta={"n": 1})
        memory.remember("The page says that tea is green.", key="page", origin="tool", source="web_search")
        memory.remember("Tea is green.", key="lesson", made_of=["page", "tea"])
        memory.confirm("page")
    manager = SessionManager(url)
    manager.backup(target)  # one file without a log beside it
    manager.database.close()
    for path in HERE.glob("making.db*"):
        path.unlink()


if __name__ == "__main__":
    main()
