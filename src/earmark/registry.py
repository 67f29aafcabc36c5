"""Implementations by name: one registry a seam, open to other packages by entry points.

A package adds a rule of its own by declaring it, and nothing else:

    [project.entry-points."earmark.rules"]
    every-third = "my_package.rules:EveryThird"
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from earmark.errors import PluginError

Item = TypeVar("Item")


class Registry(UserDict[str, Item]):
    """What one seam can be filled with, by name; loaded when it is first looked up.

    >>> colours = Registry("earmark.colours", {"red": 1, "green": 2}, kind="colour")
    >>> colours.named("green"), list(colours)
    (2, ['red', 'green'])
    """

    def __init__(
        self,
        group: str,
        builtin: Mapping[str, Item | str],
        *,
        kind: str,
        includes: Mapping[str, Item] | None = None,
    ) -> None:
        """Begin with what earmark itself brings; a name of ours stays ours.

        Args:
            group: The entry points other packages declare theirs under.
            builtin: The item itself, or `module:attribute` to import it from when it is needed.
            kind: What an item is called in a message.
            includes: Another seam, all of which can fill this one too.
        """
        self.group = group
        self.kind = kind
        self._includes: Mapping[str, Item] = includes or {}
        points = sorted(_declared().select(group=group), key=lambda point: point.name)
        plugins: dict[str, Any] = {point.name: point for point in points}
        ours = {**dict.fromkeys(self._includes), **builtin}
        names = dict.fromkeys([*builtin, *self._includes, *plugins])
        found: dict[str, Any] = {name: ours.get(name, plugins.get(name)) for name in names}
        self.data = found

    def __getitem__(self, name: str) -> Item:
        item: Any = self.data[name]
        if item is None:
            return self._includes[name]
        if isinstance(item, str):
            module, _, attribute = item.partition(":")
            item = getattr(import_module(module), attribute)
        elif isinstance(item, EntryPoint):
            item = self._load(item)
        self.data[name] = item
        found: Item = item
        return found

    def named(self, name: str) -> Item:
        """The item called `name`.

        Raises:
            ValueError: there is none; the message lists those there are.
            PluginError: another package declares it, and it cannot be loaded.
        """
        if name not in self:
            raise ValueError(
                f"there is no {self.kind} {name!r}; the {self.kind}s are {', '.join(self)}"
            )
        return self[name]

    def _load(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            owner = point.dist.name if point.dist else "another package"
            raise PluginError(
                f"the {self.kind} {point.name} of {owner} cannot be loaded ({error}); "
                f"reinstall {owner}, or uninstall it"
            ) from error


@cache
def _declared() -> Any:
    """What all installed packages declare; looked up once."""
    return entry_points()
