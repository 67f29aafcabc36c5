"""Implementations by name: one registry a seam, open to other packages by entry points.

A package adds a rule of its own by declaring it, and nothing else:

    [project.entry-points."earmark.rules"]
    every-third = "my_package.rules:EveryThird"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from earmark.errors import PluginError

Item = TypeVar("Item")


class Registry(Mapping[str, Item], Generic[Item]):
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
        """Begin with what earmark itself brings.

        Args:
            group: The entry points other packages declare theirs under.
            builtin: The item itself, or `module:attribute` to import it from when it is needed.
            kind: What an item is called in a message.
            includes: Another seam, all of which can fill this one too.
        """
        self.group = group
        self.kind = kind
        self._builtin = dict(builtin)
        self._includes: Mapping[str, Item] = {} if includes is None else includes

    def __getitem__(self, name: str) -> Item:
        if name in self._builtin:
            item = self._builtin[name]
            if isinstance(item, str):
                module, _, attribute = item.partition(":")
                item = self._builtin[name] = getattr(import_module(module), attribute)
            return item
        if name in self._includes:
            return self._includes[name]
        return self._load(self._plugins[name])

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        yield from self._includes
        yield from self._plugins

    def __len__(self) -> int:
        return len(self._builtin) + len(self._includes) + len(self._plugins)

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._includes or name in self._plugins

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

    def name_of(self, kind: type) -> str:
        """The name `kind` is registered under; its own in lower case if it is not."""
        address = f"{kind.__module__}:{kind.__qualname__}"
        addresses = {name: point.value for name, point in self._plugins.items()}
        for name, item in {**addresses, **self._builtin}.items():
            if item is kind or item == address:
                return name
        return kind.__name__.lower()

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Those other packages declare, by name; a name of our own stays ours."""
        found = sorted(entry_points(group=self.group), key=lambda point: point.name)
        ours = {*self._builtin, *self._includes}
        return {point.name: point for point in found if point.name not in ours}

    def _load(self, point: EntryPoint) -> Item:
        try:
            item: Item = point.load()
        except (ImportError, AttributeError) as error:
            owner = point.dist.name if point.dist else "another package"
            raise PluginError(
                f"the {self.kind} {point.name} of {owner} cannot be loaded ({error}); "
                f"reinstall {owner}, or uninstall it"
            ) from error
        return item
