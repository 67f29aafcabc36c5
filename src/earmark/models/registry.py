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


class Registry(dict[str, Item]):
    """The implementations of one seam by name; each is loaded on first use.

    >>> colours = Registry("earmark.colours", {"red": 1, "green": 2}, kind="colour")
    >>> colours.named("green"), list(colours)
    (2, ['red', 'green'])
    """

    def __init__(self, group: str, builtin: Mapping[str, Item | str], *, kind: str) -> None:
        """The built-in items win over the entry points of `group`.

        An item is itself or `module:attribute`, imported on first use; an argument may follow after
        another colon. `kind` is the word for an item in messages.
        """
        points = sorted(_entry_points().select(group=group), key=lambda point: point.name)
        items: dict[str, Any] = dict(builtin)
        super().__init__(items | {point.name: point for point in points if point.name not in items})
        self.kind = kind

    def __getitem__(self, name: str) -> Item:
        item: Any = super().__getitem__(name)
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
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def values(self) -> list[Item]:  # type: ignore[override]
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Item]]:  # type: ignore[override]
        return [(name, self[name]) for name in self]

    def named(self, name: str) -> Item:
        if name not in self:
            raise ValueError(
                f"there is no {self.kind} {name!r}; the {self.kind}s are {', '.join(self)} "
                "(packages such as earmark-lab add more)"
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
