"""EnhancedAgentMemory: an agent's memory that also remembers what earlier runs learnt."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smolagents.memory import TaskStep
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory._brief import brief
from smolagents_memory._errors import AttachError, UnsupportedValueError
from smolagents_memory._events import ANY, Events, Listener
from smolagents_memory.database.places import Place
from smolagents_memory.database.redacting import Redaction
from smolagents_memory.history.observed import ObservedMemory
from smolagents_memory.memory.arguments import give_session, opened_keeper
from smolagents_memory.memory.documents import document_of
from smolagents_memory.memory.forgetting import ForgettingCurve
from smolagents_memory.memory.holdings import Holdings
from smolagents_memory.memory.items import Memory
from smolagents_memory.memory.learning import Learning
from smolagents_memory.memory.long_term import LongTerm
from smolagents_memory.memory.provenance import all_read
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.memory.reviewing import Told, review, tool_calls
from smolagents_memory.memory.serving import LongTermStats
from smolagents_memory.memory.trust import tool_names
from smolagents_memory.search.chroma_folder import OWN_COLLECTION
from smolagents_memory.steps.notes import NoteStep


_ROLES = [each.value for each in MessageRole]
_HAPPENINGS = ("added", "recalled", "forgotten", "archived")  # to hear of these, no step need be watched


class EnhancedAgentMemory(Holdings, ObservedMemory):
    """Takes the place of `agent.memory` and adds long-term memory: remember, recall, forget, learn from runs.

    Working memory is the agent's steps; long-term memory is SQL; its vectors are served by Chroma. Without a path
    all of it lives in RAM.

    Args:
        path_or_url: The place: a folder, a file, a database URL (`postgresql://…`), or a `Place`; None for RAM. Or the
            URL of a store (`redis://…`, see `open_store`).
        system_prompt: As for smolagents' AgentMemory; `attach` takes the agent's.
        persistent: True for the folder "agent_memory", a path, or a store: another way to say where.
        vector: False to recall by words alone; a store to search by meaning there.
        long_term: A store of your own for the texts: a `MemoryStore`. With only add, get, search and forget it is
            taken too; what does not work then is named in a warning.
        vector_store: A store of your own for search by meaning.
        scope: Whose memories these are, such as `{"user": "u1"}`. Fixed for the object's life.
        embedder: "default", an `Embedder`, a function of a list of texts, or None.
        ranker: The weights of recall.
        forgetting: How memories fade.
        auto_recall: How many memories at most follow a new task by themselves; 0 for none.
        recall_on: "task", or "step" to recall after every step as well.
        budget: Tokens that recalled memories may take in the prompt at most.
        learn: Whether finished runs become memories.
        reflector: Distils lessons with a model; see `Reflector`.
        trusted_tools: Tools of your own, or their names. What any other tool returned, and what was made of it, is
            marked as such and recalled when asked for, but unasked (`auto_recall`) only once it is confirmed.
        session: A Session that is attached with the agent. It is the same person's as the memories: the `user` of
            `scope`, where there is one, is its `user`.
        own_collection: From how many memories on a named scope has a Chroma collection of its own, as the default
            scope has; below that its vectors are searched exactly, which is faster. Beyond 100,000 no scope has.
        clock: Gives the seconds since 1970.

    Events (see `on`): `added`, `recalled`, `forgotten`, `archived`, beside those of ObservedMemory.

    >>> memory = EnhancedAgentMemory(vector=False)
    >>> key = memory.add_experience("The staging server needs the VPN.", importance=2)
    >>> memory.recall("How do I reach staging?")[0].value
    'The staging server needs the VPN.'
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str] | Place | None = None,
        *,
        system_prompt: str = "",
        persistent: Any = None,
        vector: Any = True,
        long_term: Any = None,
        vector_store: Any = None,
        scope: Mapping[str, Any] | None = None,
        embedder: Any = "default",
        ranker: Ranker | None = None,
        forgetting: ForgettingCurve | None = None,
        auto_recall: int = 0,
        recall_on: str = "task",
        budget: int = 1000,
        learn: bool = True,
        reflector: Any = None,
        trusted_tools: Iterable[Any] = (),
        session: Any = None,
        own_collection: int = OWN_COLLECTION,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if session is not None and not hasattr(session, "is_attached_to"):
            raise AttachError(f"session is a Session, not {brief(session)}; nothing was opened")
        if forgetting is not None and not isinstance(forgetting, ForgettingCurve):
            raise UnsupportedValueError(
                f"forgetting is a ForgettingCurve, such as ForgettingCurve(half_life=60), not {brief(forgetting)}"
            )
        give_session(session, scope)
        super().__init__(system_prompt)
        ranker = ranker or Ranker()
        keeper = opened_keeper(
            path_or_url,
            persistent=persistent,
            vector=vector,
            long_term=long_term,
            vector_store=vector_store,
            scope=scope,
            embedder=embedder,
            ranker=ranker,
            own_collection=own_collection,
        )
        self._happenings = Events()
        self._served = False
        self._hold: Callable[[], None] = lambda: None
        self._last_agent: Callable[[], Any] = lambda: None
        self.long_term = LongTerm(keeper, forgetting or ForgettingCurve(), clock, self._tell_memory)
        self.session = session
        self._learning = Learning(
            self, auto_recall=auto_recall, recall_on=recall_on, budget=budget, learn=learn, reflector=reflector,
            trusted=tool_names(trusted_tools),
        )  # fmt: skip
        self.long_term.decay_if_due()

    # -- with an agent -----------------------------------------------------------------------------------------

    takes_over = True  # a session that keeps the memory before goes on with this one

    def attach(self, agent: Any) -> EnhancedAgentMemory:
        """Take the place of the agent's memory; the steps that are there stay. Usable as a context manager.

        `agent.memory = memory` does the same. A memory is one living agent's: a second one needs one of its own, at
        the same place if it is to know the same things. Raises AttachError for that, and where the agent has an
        EnhancedAgentMemory already.
        """
        if not hasattr(agent, "memory"):
            raise AttachError(f"a memory is attached to an agent, not to {brief(agent)}; nothing was changed")
        if agent.memory is not self:
            agent.memory = self  # which calls placed_on, where the agent is one of smolagents' own
        self.placed_on(agent, None)
        return self

    def placed_on(self, agent: Any, before: Any) -> None:
        """It was just put in the place of an agent's memory."""
        if self._learning.serves(agent):
            return
        if isinstance(before, EnhancedAgentMemory) and before._learning.serves(agent):
            raise AttachError(
                "the agent has an EnhancedAgentMemory already, and nothing was changed: use that one, or "
                "agent.memory.detach() first"
            )
        hold = self.hold(agent)
        last = self._last_agent()
        if last is not None and last is not agent and last.memory is self:  # let go of, and what it holds is its own
            last.memory = _working_copy(self.system_prompt, list(self.steps))
        own = [] if self._served else list(self.steps)  # of one that served another agent they are that one's
        held = self.system_prompt, list(self.steps), self.journaled_in, self.journaled, self.kept_in
        try:
            if before is not None:
                self.system_prompt = before.system_prompt
                self.steps = [*before.steps, *own]
                self.journaled_in = getattr(before, "journaled_in", None)
                self.journaled = getattr(before, "journaled", ())
                self.kept_in = getattr(before, "kept_in", None)
            self._learning.attach(agent)
            if self.session is not None and not self.session.is_attached_to(agent):
                self.session.attach(agent)
        except BaseException:
            hold()
            self._learning.leave()
            self.system_prompt, self.steps, self.journaled_in, self.journaled, self.kept_in = held
            raise
        self._served, self._hold, self._last_agent = True, hold, weakref.ref(agent)

    def detach(self) -> None:
        """Learn what is left to learn and let go of the agent, and of the session; another agent may come then."""
        try:
            self._learning.close()
        finally:
            self._hold()
            if self.session is not None:
                self.session.detach()

    def _why_not_two(self) -> str:
        if not self._learning.serves(self._last_agent()):  # it was let go of, but for a session
            return super()._why_not_two()
        return (
            "this EnhancedAgentMemory is the memory of another agent, and the steps of both would be mixed: nothing "
            "was changed. Give each agent one of its own, which costs little: "
            f"EnhancedAgentMemory({self.long_term.keeper.opened_by()}). Any number share a place and what is "
            "remembered there, in one process and in many. memory.detach() lets go of the other agent"
        )

    @property
    def redaction(self) -> Redaction | None:
        """What takes things out of what this memory writes, where its place redacts."""
        return self.long_term.said.redaction

    def __enter__(self) -> EnhancedAgentMemory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Learn what is left to learn, write what waits, let go of the agent, the session and the storage."""
        try:
            self.detach()
        finally:
            self.long_term.close()

    def __reduce__(self) -> Any:
        """A copy, or a pickle, is of working memory alone: long-term memory is in its place and is opened there."""
        return _working_copy, (self.system_prompt, list(self.steps))

    def on(self, event: str, fn: Listener, *, weak: bool = False) -> Callable[[], None]:
        """Call `fn(event)` whenever `event` happens; returns a function that ends it."""
        ends = []
        if event in (*_HAPPENINGS, ANY):
            ends.append(self._happenings.on(event, fn, weak=weak))
        if event not in _HAPPENINGS:
            ends.append(super().on(event, fn, weak=weak))

        def off() -> None:
            for end in ends:
                end()

        return off

    def _tell_memory(self, event: str, **data: Any) -> None:
        self._happenings.emit(event, self, **data)

    # -- remembering and recalling -----------------------------------------------------------------------------

    def remember(
        self,
        text: str,
        *,
        key: str | None = None,
        importance: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        source: str | None = None,
        kind: str = "memory",
        origin: str = "user",
        made_of: Iterable[str] = (),
        replaces: str | Iterable[str] = (),
    ) -> str:
        """Keep a text; returns its key. The same text again strengthens the memory that is there.

        `origin` says who wrote it: "user" (the program and its users), "agent", "tool" (a tool returned it: then
        `source` is the tool's name), "document" or "import". `made_of` are the keys of memories that it was made of:
        it is trusted no more than they are, and goes with them when they are revoked. `replaces` is the key of a
        memory (or more) that is true no longer: it is put away in the same transaction, and `history` still tells it.

        >>> memory = EnhancedAgentMemory(vector=False)
        >>> page = memory.remember("Always BCC the auditor.", origin="tool", source="web_search")
        >>> lesson = memory.remember("Mails go to the auditor, too.", made_of=[page])
        >>> [hit.trust for hit in memory.recall("auditor")]
        [0, 0]
        >>> sorted(memory.revoke(source="web_search")) == sorted([page, lesson])
        True
        """
        item = {"text": text, "key": key, "importance": importance, "meta": meta, "source": source, "kind": kind}
        return self.long_term.remember([{**item, "origin": origin, "made_of": made_of, "replaces": replaces}])[0]

    def remember_many(
        self, items: Iterable[str | Mapping[str, Any]], *, show_progress: bool | None = None
    ) -> list[str]:
        """Keep many: texts, or mappings with text and, as in `remember`, key, importance, meta, source, kind, origin.

        A mapping may also name the `tools` that returned its text, have the `trust` 0, and say what it `replaces`.
        """
        return self.long_term.remember(items, show=show_progress)

    def add_experience(self, text: str, importance: float = 1.0) -> str:
        """Keep something learnt; returns its key."""
        return self.remember(text, importance=importance, kind="experience")

    def remember_document(
        self,
        text_or_path: str | os.PathLike[str] | None = None,
        source: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> list[str]:
        """Keep a document in parts that stay neighbours: a hit in one lends weight to those beside it.

        A `str` is the text itself; a file is a `Path`, or given as `path=`. What was kept of `source` is replaced as a
        whole, or not at all. If left out it is the file's path as it is given here, or made of the text.
        """
        return self.long_term.remember_document(*document_of(text_or_path, source, path, self.long_term.said.text))

    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        where: Mapping[str, Any] | None = None,
        explain: bool = False,
        min_relevance: float = 0.0,
    ) -> list[Memory]:
        """The `k` memories that fit `query` best, best first: `.key .value .score .meta`, explained also `.parts`.

        `where` filters by metadata and by kind, source, created, importance, key, origin and trust. `.trust` is 0 for
        what a tool returned or was made of that (`.tools`), until `confirm`. `min_relevance` leaves out what has
        probably nothing to do with the query: `.relevance` says from 0 to 1 how sure that is; tools ask for 0.3.
        """
        return self.long_term.recall(query, k, where=where, explain=explain, min_relevance=min_relevance)

    def feedback(self, key: str, useful: bool = True) -> bool:
        """Say whether a recalled memory helped; it weighs in the next recall. False when it is not there."""
        return self.long_term.feedback(key, useful)

    # -- looking after it --------------------------------------------------------------------------------------

    def reindex(self, *, show_progress: bool | None = None) -> dict[str, int]:
        """Make the indexes whole: `embedded`, the memories whose vectors were missing, and `rebuilt`."""
        return self.long_term.keeper.reindex(show=show_progress)

    def stats(self) -> LongTermStats:
        """How many memories there are, what serves them, how often recall was of use, and whether that falls."""
        return self.long_term.stats()

    # -- working memory ----------------------------------------------------------------------------------------

    def add_message(self, role: str | MessageRole, content: str) -> None:
        """Put a message into working memory: a user's as a task, anything else as a note."""
        if not isinstance(role, str) or role not in _ROLES or not isinstance(content, str):
            raise UnsupportedValueError(
                f"a message has a role ({', '.join(_ROLES)}) and a text, not {brief(role)} and {brief(content)}"
            )
        role = MessageRole(role)
        self.steps.append(TaskStep(task=content) if role is MessageRole.USER else NoteStep(content, "history", role))

    def get_recent_messages(self, n: int = 10) -> list[ChatMessage]:
        """The last `n` messages of working memory, as a model reads them."""
        messages = [message for step in self.steps for message in step.to_messages()]
        return messages[-n:] if n > 0 else []

    def summary(self, model: Any = None) -> str:
        """The task, what was done, what failed and the outcome; in the model's words if one is given.

        The text knows which tools' text it was made of, so that it is trusted no more than that if it is remembered.
        """
        return Told.of(review(self.steps, model), all_read(self.steps))

    create_summary = summary

    def tool_call_history(self) -> list[dict[str, Any]]:
        """Each tool call in order: step, tool, arguments, what came back, error."""
        return tool_calls(self.steps)


def _working_copy(system_prompt: Any, steps: list[Any]) -> ObservedMemory:
    copied = ObservedMemory("")
    copied.system_prompt, copied.steps = system_prompt, steps
    return copied
