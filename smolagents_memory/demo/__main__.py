"""The demo's other processes: `python -m smolagents_memory.demo work|camera …`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Be one of them. Ctrl-C is for the demo alone, which then ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if arguments[:1] == ["camera"]:
        from smolagents_memory.demo.pictures import be_camera

        return be_camera(arguments[1])
    from smolagents_memory.demo.screen import Screen
    from smolagents_memory.demo.watcher import model_for
    from smolagents_memory.demo.worker import end_with_the_demo, work

    _, folder, session_id, url, pictures, model, api_base = arguments
    end_with_the_demo()
    made = model_for(model or None, api_base or None)
    work(Path(folder), session_id, url, made, pictures=pictures == "pictures", screen=Screen())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
