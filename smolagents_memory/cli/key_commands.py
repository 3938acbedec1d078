"""Commands over a sealed place: sealing it, new keys for it, and keys that are thrown away."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Annotated, Any

import typer

from smolagents_memory.cli import app
from smolagents_memory.cli.app import STORAGE, AsJson, KeyFile, KeyringAt, Storage, Yes, command
from smolagents_memory.cli.memories import Scope, as_scope


keys = typer.Typer(no_args_is_help=True, help="The keys of a sealed place: listed, carried, thrown away.")
app.app.add_typer(keys, name="keys")

NEW_PASSPHRASE = "SMOLAGENTS_MEMORY_NEW_PASSPHRASE"


def _manager(storage: Any) -> Any:
    """The keys of a place, which must be there and have been named with its keys."""
    from smolagents_memory.database.places import Place
    from smolagents_memory.people.key_manager import KeyManager

    if not isinstance(storage, Place):
        app.fail(
            "name the keys of the place: --key-file (or a passphrase in SMOLAGENTS_MEMORY_PASSPHRASE) and --keyring"
        )
    if storage.path is not None and not storage.path.exists():
        app.fail(
            f"there is no memory in {app.named(storage)!r} ({storage.path} does not exist); name it with --storage"
        )
    return KeyManager(storage)


@command("seal")
def seal(
    key_file: KeyFile = None,
    keyring: KeyringAt = None,
    sign: Annotated[
        bool, typer.Option("--sign", help="Encrypt nothing: only make sure that every change is noticed.")
    ] = False,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Encrypt all that a place holds, and purge it of what lay there plain; killed, do it again. A new one begins so.

    A key file that is missing is made. Without it and the keyring nobody reads the place again: keep copies of both,
    elsewhere than backups of the place.

    Example: smolagents-memory seal --key-file ~/master.key --keyring ~/keys
    """
    from smolagents_memory.cli import seals
    from smolagents_memory.database.places import Place
    from smolagents_memory.people.key_manager import KeyManager
    from smolagents_memory.privacy.data_keys import LENGTH
    from smolagents_memory.privacy.sealing import Seal

    place = seals.place_named(storage)
    before, mode = seals.mode_read(place), "sign" if sign else "seal"
    if before not in (None, mode):
        app.fail(f"{app.named(place)} is sealed already, in the mode {before!r}; unseal it first. Nothing was changed")
    made = None
    if before is None and key_file and keyring and not seals.key_file_at(key_file).exists():
        made = seals.key_file_at(key_file)
        trial = Seal(bytes(LENGTH), keyring, mode="sign" if sign else "seal")
        trial.key_file = made
        Place(place, seal=trial)  # what is refused is refused before a file is made
        Seal.from_file(made, keyring)
    given = seals.seal_named(key_file, keyring, mode=mode, passphrase=seals.PASSPHRASE)
    KeyManager(Place(place, seal=given)).seal(show=_shown(as_json))
    key = f" The master key was made: {made}. Keep a copy of it, and of the keyring {given.keyring}." if made else ""
    told = f"{app.named(storage)!r} is {'signed' if sign else 'sealed'}.{key}"
    app.tell(told, {"sealed": str(place), "mode": mode, "key_file_made": made and str(made)}, as_json)


@command("unseal")
def unseal(storage: Storage = STORAGE, yes: Yes = False, as_json: AsJson = False) -> None:
    """Write all that a sealed place holds as plain text again. Its keys stay, for backups.

    Example: smolagents-memory unseal --key-file ~/master.key --keyring ~/keys
    """
    manager = _manager(storage)
    app.confirm(
        f"All that {app.named(storage)} holds will lie there for everybody to read who has the files. Go ahead?", yes
    )
    manager.unseal(show=_shown(as_json))
    app.tell(f"{app.named(storage)} is not sealed any more.", {"unsealed": str(storage)}, as_json)


@command("reseal")
def reseal(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """Encrypt all anew with new keys. The retired ones stay for old backups, until `keys drop`.

    Example: smolagents-memory reseal --key-file ~/master.key --keyring ~/keys
    """
    _manager(storage).reseal(show=_shown(as_json))
    app.tell(f"{app.named(storage)} is sealed with new keys.", {"resealed": str(storage)}, as_json)


@command("rotate")
def rotate(
    new_key_file: Annotated[
        str | None,
        typer.Option(
            help="The file with the new master key, made where it is missing. A passphrase instead is taken from "
            f"{NEW_PASSPHRASE}.",
            show_default=False,
        ),
    ] = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Wrap all keys of a place with another master key, which alone opens them then. Killed, do it again.

    Example: smolagents-memory rotate --new-key-file ~/new.key --key-file ~/master.key --keyring ~/keys
    """
    from smolagents_memory.cli import seals
    from smolagents_memory.privacy.sealing import Seal

    manager = _manager(storage)
    made, old = None, manager.place.seal
    if new_key_file and not seals.key_file_at(new_key_file).exists():
        made = seals.key_file_at(new_key_file)
        manager.list()  # by the old one it opens, before another one is made
        Seal.from_file(made, old.keyring)
    at = {"mode": old.mode, "passphrase": NEW_PASSPHRASE, "option": "--new-key-file"}
    count = manager.rotate(seals.seal_named(new_key_file, old.keyring, **at))
    key = f" It was made: {made}. Keep a copy of it." if made else ""
    told = f"The new master key opens {count} entries of the keyring, and the old one none.{key}"
    app.tell(told, {"rotated": count, "key_file_made": made and str(made)}, as_json)


@command("shred")
def shred(
    session: Annotated[str | None, typer.Option(help="The session's id.", show_default=False)] = None,
    scope: Scope = None,
    storage: Storage = STORAGE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a session, or all memories of a scope, with their keys: no backup gives them back. Killed, do it again.

    Example: smolagents-memory shred --session user-42 --yes

    Example: smolagents-memory shred --scope user=ann
    """
    if (session is None) == (not scope):
        app.fail("name what is shredded: --session user-42, or --scope user=ann")
    manager = _manager(storage)
    there, wanted = _there(storage, session, scope)
    what = f"session {session!r}" if session is not None else f"the scope {' '.join(scope or ())}"
    question = f"{what[0].upper()}{what[1:]} and its keys will be deleted, for all backups too. Go ahead?"
    app.confirm(question, yes)
    with app.console().status("shredding …"):
        deleted = sum(manager.shred(**each) for each in wanted)
    if not there and not deleted:
        app.fail(f"there is no {what.removeprefix('the ')} in {app.named(storage)}, and no key of it in the keyring")
    told = f"{what[0].upper()}{what[1:]} is shredded: {deleted} entries of the keyring are deleted."
    app.tell(told, {"shredded": session if session is not None else scope, "entries": deleted}, as_json)


def _there(storage: Any, session: str | None, scope: list[str] | None) -> tuple[bool, list[dict[str, Any]]]:
    """Whether it is there, and what is to be shredded: what is not may have been left half by one who was killed."""
    from smolagents_memory.database.engine import MEMORIES, Database
    from smolagents_memory.sessions.manager import SessionManager
    from smolagents_memory.stores.bank import Bank

    if session is not None:
        return SessionManager(storage).session(session).exists(), [{"session": session}]
    given = as_scope(scope)
    spelled = [[text, *([int(text)] if text.isdecimal() else [])] for text in given.values()]
    alike = [dict(zip(given, values, strict=True)) for values in itertools.product(*spelled)]
    there = [each.scope for each in Bank(Database.at(storage, faults=MEMORIES)).scopes() if each.scope in alike]
    return bool(there), [{"scope": each} for each in there[:1] or alike]


@command("list", keys)
def list_(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """List whose keys there are, and how many retired ones. No key is shown.

    Example: smolagents-memory keys list --key-file ~/master.key --keyring ~/keys
    """
    found = _manager(storage).list()
    if as_json:
        app.print_json([dataclasses.asdict(each) for each in found])
        return
    rows = [[each.whose or "(what is no more)", "in use" if each.in_use else "", each.retired] for each in found]
    app.print_table(["of", "key", "retired"], rows, "No keys.")


@command("export", keys)
def export(
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    storage: Storage = STORAGE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write the keys of a place into a file, wrapped by its master key as they are: a copy of the keyring.

    Example: smolagents-memory keys export keys.json --key-file ~/master.key --keyring ~/keys
    """
    manager = _manager(storage)
    app.confirm_replacing(path, yes)
    written = manager.export(path)
    size = written.stat().st_size
    told = f"The keys of {app.named(storage)} are in {written} ({size:,} bytes)."
    app.tell(told, {"path": str(written), "bytes": size}, as_json)


@command("import", keys)
def import_(
    path: Annotated[Path, typer.Argument(help="A file that `keys export` wrote.", show_default=False)],
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Put keys that were exported into the keyring, but for those that are there.

    Example: smolagents-memory keys import keys.json --key-file ~/master.key --keyring ~/keys
    """
    count = _manager(storage).import_(path)
    app.tell(f"{count} entries were put into the keyring.", {"imported": count}, as_json)


@command("drop", keys)
def drop(storage: Storage = STORAGE, yes: Yes = False, as_json: AsJson = False) -> None:
    """Throw away the retired keys, and those of what is no more: old backups that need them cannot be read again.

    Example: smolagents-memory keys drop --yes --key-file ~/master.key --keyring ~/keys
    """
    manager = _manager(storage)
    app.confirm("Backups that need retired keys, or keys of what was deleted, cannot be read again. Go ahead?", yes)
    with app.console().status("dropping …"):
        count = manager.drop()
    app.tell(f"{count} entries of the keyring were deleted or made smaller.", {"dropped": count}, as_json)


def _shown(as_json: bool) -> bool | None:
    """Whether a progress bar is shown: where it takes long, and nobody waits for JSON alone."""
    return False if as_json else None
