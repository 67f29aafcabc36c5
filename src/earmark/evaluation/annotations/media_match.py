"""Matches media with annotations by the name of the recording."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import list_few
from earmark.media import Source, find
from earmark.media.source import name_of


def find_media(
    paths: Sequence[str | Path], *, wanted: Collection[str] | None = None
) -> dict[str, Source]:
    """Recordings by name: the stem of the file, or of the first chapter.

    `AnnotationError` if two of `wanted` have the same name; None checks all.
    """
    found: dict[str, Source] = {}
    given = {str(path) for path in paths}
    for source in find([str(path) for path in paths]):
        if "://" not in source.uris[0] and not Path(source.uris[0]).is_file():
            if source.uris[0] in given:
                raise AnnotationError(f"there are no media at {source.path}")
            continue  # found in a folder: a broken link, or a folder that cannot be read
        name = Path(name_of(source.uris[0])).stem
        if name in found and (wanted is None or name in wanted):
            raise AnnotationError(
                f"two media files are called {name}: {found[name].path} and {source.path}"
            )
        found.setdefault(name, source)
    return found


def reconcile(
    annotated: Collection[str],
    available: Collection[str],
    *,
    allow_missing: bool = False,
    what: str = "media",
) -> list[str]:
    """The recordings in both `annotated` and `available`, in the order of `annotated`.

    `AnnotationError` if there are none, or if one is missing and `allow_missing` is not set;
    `what` is the word for the available side in messages.
    """
    here = set(available)
    common = [name for name in annotated if name in here]
    unheard = [name for name in annotated if name not in here]
    unmarked = sorted(here - set(annotated))
    if (unheard or unmarked) and not allow_missing:
        parts = [f"no {what} for {list_few(unheard, most=10)}"] if unheard else []
        parts += [f"no annotations for {list_few(unmarked, most=10)}"] if unmarked else []
        raise AnnotationError(
            f"{'; '.join(parts)}: pass --allow-missing to go on with the {len(common)} with both"
        )
    if not common:
        raise AnnotationError(
            f"no recording has both {what} and annotations: {what} {list_few(sorted(available))}, "
            f"annotations {list_few(annotated)}"
        )
    return common
