"""A keyring of one's own, in RAM: what the package asks of one and no more."""

from __future__ import annotations


class RamKeyring:
    """Keys by name."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def put_if_absent(self, name: str, value: bytes) -> bytes:
        return self.kept.setdefault(name, value)

    def replace(self, name: str, value: bytes) -> None:
        self.kept[name] = value

    def delete(self, name: str) -> None:
        self.kept.pop(name, None)
