"""Implementations by name: one registry per seam, open to other packages by entry points.

A package adds a rule by declaring it:

    [project.entry-points."earmark.rules"]
    every-third = "my_package.rules:EveryThird"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from earmark.errors import PluginError, summarise

Item = TypeVar("Item")

_INCLUDED = object()
"""Marks an item of another seam's registry."""


class Registry(dict[str, Item]):
    """The implementations of one seam by name; each is loaded on first use.

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
        """Register the built-in items and entry points; a built-in item wins over an entry point.

        Args:
            group: The entry point group for other packages.
            builtin: The item itself, or `module:attribute` to import it on first use; an argument
                may follow after another colon.
            kind: The word for an item in messages.
            includes: The items of another seam, which are valid here too.
        """
        points = sorted(_entry_points().select(group=group), key=lambda point: point.name)
        named: dict[str, Any] = {point.name: point for point in points}
        named |= dict.fromkeys(includes or {}, _INCLUDED) | dict(builtin)
        order = dict.fromkeys([*builtin, *(includes or {}), *named])
        super().__init__({name: named[name] for name in order})
        self.kind = kind
        self._includes = includes or {}

    def __getitem__(self, name: str) -> Item:
        item: Any = super().__getitem__(name)
        if item is _INCLUDED:
            return self._includes[name]
        if isinstance(item, str):
            module, attribute, *given = item.split(":")
            item = getattr(import_module(module), attribute)
            item = partial(item, *given) if given else item
            self[name] = item
        elif isinstance(item, EntryPoint):
            self[name] = item = self._load(item)
        found: Item = item
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """The item called `name`, loaded; `default` if there is none."""
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def values(self) -> list[Item]:  # type: ignore[override]
        """Every item, loaded."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Item]]:  # type: ignore[override]
        """Every name with its item, loaded."""
        return [(name, self[name]) for name in self]

    def named(self, name: str) -> Item:
        """The item called `name`; for an unknown name, a `ValueError` that lists the known ones."""
        if name not in self:
            raise ValueError(
                f"there is no {self.kind} {name!r}; the {self.kind}s are {', '.join(self)}"
            )
        return self[name]

    def _load(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except Exception as error:  # whatever the code of another package raises on import
            owner = point.dist.name if point.dist else "another package"
            raise PluginError(
                f"the {self.kind} {point.name} of {owner} cannot be loaded ({summarise(error)}); "
                f"reinstall {owner}, or uninstall it"
            ) from error


_entry_points: Callable[[], Any] = cache(entry_points)
"""The entry points of all installed packages, read once."""
