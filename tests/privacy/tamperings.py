"""What somebody who can write to a place's database, and has no key, can do to it: one at random."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sealed_story import Story


TABLES = (
    "sessions",
    "session_records",
    "session_journal",
    "session_runs",
    "blobs",
    "session_blobs",
    "memory_about",
    "memory_changes",
    "memory_scopes",
    "memory_sources",
    "memory_items",
    "memory_embedders",
    "memory_vectors",
    "memory_gone",
    "memory_recalls",
)
_WEIGHTS = (6, 6, 5, 4, 4, 2, 2, 1, 4, 2, 8, 1, 4, 1, 1)
_KEYS = {  # which columns tell the rows of a table apart
    "session_records": ("session", "number"),
    "session_journal": ("session", "revision"),
    "session_runs": ("session", "number"),
    "session_blobs": ("session", "blob"),
    "memory_about": ("name",),
}
_OWNER = {"sessions": "id", "memory_scopes": "id", "blobs": "id"}
Row = dict[str, Any]
Rows = dict[str, list[Row]]


@dataclass
class Tampering:
    """What was done: the kind, the table, the columns, and the rows as they were before (those that were there)."""

    kind: str
    table: str
    columns: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    detail: str = ""
    others: list[Row] = field(default_factory=list)

    def __str__(self) -> str:
        which = [tuple(str(row.get(name))[:24] for name in key_of(self.table)) for row in self.rows]
        return f"{self.kind} {self.table}{list(self.columns)} {which} {self.detail}"


def key_of(table: str) -> tuple[str, ...]:
    return _KEYS.get(table, ("id",))


def rows_in(file: bytes) -> Rows:
    """All rows of all tables of ours."""
    with closing(in_ram(file)) as base:
        base.row_factory = sqlite3.Row
        return {table: [dict(row) for row in base.execute(f"SELECT * FROM {table}")] for table in TABLES}


def in_ram(file: bytes) -> sqlite3.Connection:
    """The same file in RAM, as one that has no log beside it. (Python 3.10 has no `deserialize`.)"""
    base = sqlite3.connect(":memory:")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        path.write_bytes(file[:18] + b"\1\1" + file[20:])
        with closing(sqlite3.connect(path)) as held:
            held.backup(base)
    return base


class Tamperer:
    """Does one thing at random to a copy of a story's place."""

    def __init__(self, story: Story) -> None:
        self.story, self.now = story, rows_in(story.file)
        self.earlier = [rows_in(file) for file in story.earlier]
        self._owners = story.owners

    def tamper(self, path: Path, keys: dict[str, bytes], chance: random.Random) -> Tampering:
        """To the file at a path, or to the entries of a keyring."""
        if chance.random() < 0.06:
            return self._keyring(keys, chance)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute("PRAGMA foreign_keys=OFF")
            while True:
                base.execute("BEGIN")
                try:
                    done = self._in_database(base, chance)
                except sqlite3.IntegrityError:  # the database itself would not have it
                    done = None
                base.execute("COMMIT" if done is not None else "ROLLBACK")
                if done is not None:
                    return done

    def _in_database(self, base: sqlite3.Connection, chance: random.Random) -> Tampering | None:
        table = chance.choices(TABLES, _WEIGHTS)[0]
        kinds: list[tuple[Callable[..., Tampering | None], int]] = [
            (self._value, 10),
            (self._trade, 6),
            (self._trade_rows, 3),
            (self._delete, 3),
            (self._again, 2),
            (self._replay_value, 6),
            (self._replay_row, 5),
            (self._replay_all, 2),
            (self._empty, 1),
            (self._state, 1),
        ]
        kind = chance.choices([each for each, _ in kinds], [weight for _, weight in kinds])[0]
        return kind(base, table, chance)

    # -- kinds -----------------------------------------------------------------------------------------------------

    def _value(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        row = self._some(table, chance)
        column = chance.choice([name for name in row if not name.endswith("gone")]) if row else ""
        if not row:
            return None
        value, how = other_value(row[column], chance)
        if value == row[column] and type(value) is type(row[column]):
            return None
        self._set(base, table, row, {column: value})
        return Tampering("value", table, (column,), [row], how)

    def _trade(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        one, other = self._two(table, chance)
        if one is None or other is None:
            return None
        column = chance.choice(list(one))
        if one[column] == other[column]:
            return None
        self._swap(base, table, one, other, (column,))
        return Tampering("trade", table, (column,), [one, other])

    def _trade_rows(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        one, other = self._two(table, chance)
        if one is None or other is None:
            return None
        self._swap(base, table, one, other, key_of(table))
        return Tampering("trade rows", table, key_of(table), [one, other])

    def _delete(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        row = self._some(table, chance)
        if not row:
            return None
        where, values = _where(table, row)
        base.execute(f"DELETE FROM {table} WHERE {where}", values)
        return Tampering("delete", table, (), [row])

    def _again(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        row = self._some(table, chance)
        if not row:
            return None
        new = dict(row)
        for name in key_of(table)[-1:]:
            new[name] = f"{row[name]}x" if isinstance(row[name], str) else chance.choice([row[name] + 1, 10**6])
        if table in ("session_records", "session_journal", "session_runs") and chance.random() < 0.5:
            new["session"] = chance.choice(self.now["sessions"])["id"]
        for name in {"sessions": ("name",), "memory_scopes": ("name",), "memory_items": ("key",), "blobs": ("name",),
                     "memory_sources": ("name",), "memory_embedders": ("name",)}.get(table, ()):  # fmt: skip
            new[name] = (b"x" if isinstance(new[name], bytes) else "x") + new[name]
        self._insert(base, table, new)
        return Tampering("again", table, (), [row], str({name: new[name] for name in key_of(table)}))

    def _replay_value(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        row = self._some(table, chance)
        old = self._older(table, row, chance) if row else None
        if not row or old is None:
            return None
        names = [name for name in row if old[name] != row[name]]
        if not names:
            return None
        chosen = tuple(chance.sample(names, chance.choice([1, 1, 1, min(2, len(names))])))
        self._set(base, table, row, {name: old[name] for name in chosen})
        return Tampering("replay value", table, chosen, [row])

    def _replay_row(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        then = chance.choice(self.earlier)[table]
        if not then:
            return None
        old = chance.choice(then)
        there = next((row for row in self.now[table] if _same_key(table, row, old)), None)
        if there == old:
            return None
        if there is not None:
            where, values = _where(table, there)
            base.execute(f"DELETE FROM {table} WHERE {where}", values)
        self._insert(base, table, old)
        return Tampering("replay row" if there else "put back", table, (), [there or old])

    def _replay_all(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        """All rows of a table that are of one owner."""
        owner = next((name for name in ("session", "scope_id") if name in self.now[table][0]), None)
        if owner is None:
            return None
        then, whose = chance.choice(self.earlier)[table], chance.choice(self.now[table])[owner]
        old = [row for row in then if row[owner] == whose]
        now = [row for row in self.now[table] if row[owner] == whose]
        if old == now:
            return None
        base.execute(f"DELETE FROM {table} WHERE {owner} = ?", (whose,))
        for row in old:
            self._insert(base, table, row)
        return Tampering("replay all", table, (owner,), now, f"{len(old)} rows")

    def _empty(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        if not self.now[table]:
            return None
        base.execute(f"DELETE FROM {table}")
        return Tampering("empty", table, (), self.now[table])

    def _state(self, base: Any, table: str, chance: random.Random) -> Tampering | None:
        """The row that says how the place is sealed."""
        row = next(row for row in self.now["memory_about"] if row["name"] == "seal")
        told, name = json.loads(row["value"]), chance.choice(["mode", "key", "turn", "canary", "earlier", "gone"])
        if name == "gone":
            base.execute("DELETE FROM memory_about WHERE name = 'seal'")
        elif name == "earlier":
            old = chance.choice(self.earlier)["memory_about"]
            value = next(each["value"] for each in old if each["name"] == "seal")
            if value == row["value"]:
                return None
            base.execute("UPDATE memory_about SET value = ? WHERE name = 'seal'", (value,))
        else:
            others = {"mode": "sign" if told["mode"] == "seal" else "seal", "key": told["key"] + 1, "turn": "0" * 16}
            canary = told["canary"]
            told[name] = others.get(name, canary[:-1] + ("0" if canary[-1] != "0" else "1"))
            base.execute("UPDATE memory_about SET value = ? WHERE name = 'seal'", (json.dumps(told),))
        return Tampering("state", "memory_about", ("value",), [row], name)

    def _keyring(self, keys: dict[str, bytes], chance: random.Random) -> Tampering:
        kind, name = chance.choice(["trade", "cut", "bit", "gone", "earlier", "other"]), chance.choice(sorted(keys))
        held = keys[name]
        if kind == "trade":
            other = chance.choice(sorted(keys))
            keys[name], keys[other] = keys[other], held
        elif kind == "cut":
            keys[name] = held[: chance.randrange(len(held))]
        elif kind == "bit":
            at = chance.randrange(len(held))
            keys[name] = held[:at] + bytes([held[at] ^ 1 << chance.randrange(8)]) + held[at + 1 :]
        elif kind == "gone":
            del keys[name]
        elif kind == "earlier":
            keys[name] = chance.choice(self.story.earlier_keys).get(name, b"")
        else:
            keys[name] = json.dumps({"version": 1, "wraps": {"x": chance.choice(["", "AAAA", 7, None])}}).encode()
        return Tampering("keyring", "keyring", (kind,), [], name)

    def concerned(self, done: Tampering) -> set[str]:
        """The owners, as readings call them, whose rows it may have hit."""
        rows = [*done.rows, *done.others]
        sessions = {row["session"] for row in rows if "session" in row}
        blobs = {row["id"] for row in rows} if done.table == "blobs" else set()
        sessions |= {link["session"] for link in self.now["session_blobs"] if link["blob"] in blobs}
        if done.table == "sessions":
            sessions |= {row[name] for row in rows for name in ("id", "parent")}
        of_scope = "id" if done.table == "memory_scopes" else "scope_id"
        scopes = {row[of_scope] for row in rows if of_scope in row}
        named = {("session", each) for each in sessions} | {("scope", each) for each in scopes}
        return {self._owners[each] for each in named if each in self._owners}

    # -- rows ------------------------------------------------------------------------------------------------------

    def _some(self, table: str, chance: random.Random) -> Row | None:
        rows = self.now[table]
        return chance.choice(rows) if rows else None

    def _two(self, table: str, chance: random.Random) -> tuple[Row | None, Row | None]:
        """Of one owner as often as of two."""
        one = self._some(table, chance)
        if one is None:
            return None, None
        owner = next((name for name in ("session", "scope_id") if name in one), None)
        near = chance.random() < 0.5
        others = [
            row for row in self.now[table] if row is not one and (owner is None or (row[owner] == one[owner]) == near)
        ]
        return one, chance.choice(others) if others else None

    def _older(self, table: str, row: Row, chance: random.Random) -> Row | None:
        found = [old for then in self.earlier for old in then[table] if _same_key(table, row, old)]
        return chance.choice(found) if found else None

    def _set(self, base: Any, table: str, row: Row, values: Row) -> None:
        where, known = _where(table, row)
        changed = ", ".join(f"{name} = ?" for name in values)
        base.execute(f"UPDATE {table} SET {changed} WHERE {where}", (*values.values(), *known))

    def _swap(self, base: Any, table: str, one: Row, other: Row, columns: tuple[str, ...]) -> None:
        for row in (one, other):
            where, known = _where(table, row)
            base.execute(f"DELETE FROM {table} WHERE {where}", known)
        self._insert(base, table, {**one, **{name: other[name] for name in columns}})
        self._insert(base, table, {**other, **{name: one[name] for name in columns}})

    def _insert(self, base: Any, table: str, row: Row) -> None:
        marks = ", ".join("?" * len(row))
        base.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def _where(table: str, row: Row) -> tuple[str, tuple[Any, ...]]:
    names = key_of(table)
    return " AND ".join(f"{name} = ?" for name in names), tuple(row[name] for name in names)


def _same_key(table: str, one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in key_of(table))


def other_value(value: Any, chance: random.Random) -> tuple[Any, str]:
    """Another value for a column, and what was done."""
    if chance.random() < 0.12:
        odd: list[Any] = [None, 0, -1, 2**62, 1.5, -1e300, "", "odd", b"", b"odd"]
        found = chance.choice(odd)
        return found, f"to {found!r}"
    if isinstance(value, (bytes, str)) and value:
        data = value if isinstance(value, bytes) else value.encode()
        how, at = chance.choice(["bit", "bit", "cut", "longer", "zeros", "front"]), chance.randrange(len(data))
        changed = {
            "bit": data[:at] + bytes([data[at] ^ 1 << chance.randrange(7)]) + data[at + 1 :],
            "cut": data[:at],
            "longer": data + chance.randbytes(chance.randrange(1, 9)),
            "zeros": bytes(len(data)),
            "front": data[1:] + data[:1],
        }[how]
        return (changed if isinstance(value, bytes) else changed.decode("utf-8", "replace")), f"{how} at {at}"
    if isinstance(value, int):
        found = chance.choice([value + 1, value - 1, -value, value + 2**16, 0, 1])
    elif isinstance(value, float):
        found = chance.choice([value + 1, value - 1, -value, value * 2, 0.0])
    else:
        found = chance.choice([0, 1, 1.5, "odd", b"odd"])
    return found, f"to {found!r}"
