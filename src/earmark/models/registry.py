"""Implementations by name: one registry per seam, open to other packages by entry points.

A package adds a rule of its own by declaring it, and nothing else:

    [project.entry-points."earmark.rules"]
    every-third = "my_package.rules:EveryThird"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from earmark.errors import PluginError

Item = TypeVar("Item")

_INCLUDED = object()
"""Stands for an item of another seam."""


class Registry(dict[str, Item]):
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
            builtin: The item itself, or `module:attribute` to import it from when it is needed, and
                after a further colon what to call it with.
            kind: What an item is called in a message.
            includes: Another seam, all of which can fill this one too.
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
        """The item called `name`, loaded; `default` where there is none."""
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def values(self) -> list[Item]:  # type: ignore[override]
        """Every item, loaded."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Item]]:  # type: ignore[override]
        """Every name with its item, loaded."""
        return [(name, self[name]) for name in self]

    def named(self, name: str) -> Item:
        """The item called `name`; a `ValueError` lists those there are, where there is none."""
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


_entry_points: Callable[[], Any] = cache(entry_points)
"""What all installed packages declare; looked up once."""
