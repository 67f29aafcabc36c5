"""The map of the package is kept by reading its imports."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_type_hints

import pytest

import earmark

SOURCE = Path(earmark.__file__).parent
VOCABULARY = {"timeline", "errors", "redaction", "version"}
STAGES = [
    "media",
    "models",
    "features",
    "gate",
    "grid",
    "selection",
    "evidence",
    "captioning",
    "ledger",
    "reporting",
    "search",
]
"""From left to right: each sees those to its left."""
ABOVE = {
    "pipeline": {*STAGES},
    "evaluation": {*STAGES, "pipeline"},
    "training": {*STAGES, "pipeline", "evaluation"},
    "reproduction": {*STAGES, "pipeline", "evaluation", "training"},
    "distributed": {*STAGES, "pipeline", "evaluation", "training"},
    "server": {*STAGES, "pipeline", "evaluation", "training"},
    "cli": {
        *STAGES,
        *("pipeline", "evaluation", "training", "reproduction", "distributed", "server"),
    },
    "__init__": {*STAGES, "pipeline", "evaluation", "training"},
    "__main__": {"cli"},
}
MAP = {
    **{word: set() for word in VOCABULARY},
    **{stage: set(STAGES[:place]) for place, stage in enumerate(STAGES)},
    **ABOVE,
}
HOMES = {
    "av": {"media"},
    "fsspec": {"media"},
    "s3fs": {"media"},
    "onnxruntime": {"models"},
    "ai_edge_litert": {"models"},
    "cv2": {"features", "evidence", "captioning"},
    "httpx": {"media", "models", "captioning"},
    "xllamacpp": {"captioning"},
    "transformers": {"captioning"},
    "tokenizers": {"models"},
    "sqlite3": {"ledger"},
    "pandas": {"selection"},
    "pyarrow": {"reporting", "media"},
    "typer": {"cli"},
    "rich": {"reporting", "cli"},
    "torch": {"training", "features", "captioning"},
    "onnx": {"training"},
    "matplotlib": {"evaluation", "training"},
    "ray": {"distributed"},
    "opentimelineio": {"reporting"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "mcp": {"server"},
    "mcp_types": {"server"},
}
EXTRAS = [
    "ai_edge_litert",
    "cv2",
    "fastapi",
    "matplotlib",
    "mcp",
    "onnx",
    "opentimelineio",
    "pandas",
    "pyarrow",
    "ray",
    "s3fs",
    "tokenizers",
    "torch",
    "transformers",
    "uvicorn",
    "xllamacpp",
]


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package with the room on the map it lies in."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).parts[0].removesuffix(".py"), path


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every dotted name a module imports, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            names = [alias.name for alias in node.names] if node.module == "earmark" else [""]
            yield from ((f"{node.module}.{name}".rstrip("."), node.lineno) for name in names)


@pytest.mark.parametrize(
    ("room", "path"),
    list(modules()),
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_a_module_sees_only_what_lies_to_its_left(room, path):
    assert room in MAP, f"{path.name} is not on the map"
    for name, line in imports(path):
        top, _, rest = name.partition(".")
        if top == "earmark" and rest:
            seen = rest.split(".")[0]
            allowed = {room} | VOCABULARY | MAP[room]
            assert seen in allowed or seen.startswith("__"), f"{room} sees {seen}, line {line}"
        elif top in HOMES:
            assert room in HOMES[top], f"{top} does not live in {room}, line {line}"


def test_importing_earmark_loads_no_extra():
    """And takes no more than a moment: see benchmarks/listen.py for the time."""
    code = "import earmark, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(EXTRAS) & set(loaded)


def test_the_public_names_are_pinned():
    assert list(earmark.__all__) == sorted(earmark.__all__)
    assert dir(earmark) == sorted(earmark.__all__)


@pytest.mark.parametrize("name", earmark.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(earmark, name) is not None


@pytest.mark.parametrize(
    "verb", ["ask", "caption", "evaluate", "find", "plan", "select", "sounds", "train"]
)
def test_the_verbs_are_functions_with_types_and_words(verb):
    function = getattr(earmark, verb)
    assert inspect.isfunction(function)
    assert function.__doc__
    assert get_type_hints(function)["return"] is not type(None)


def dotted(path: Path) -> str:
    """The name a module is imported by."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", [path for _, path in modules()], ids=dotted)
def test_every_module_is_imported_by_its_dotted_path(path):
    if path.name != "__main__.py":
        assert importlib.import_module(dotted(path)).__name__ == dotted(path)


def test_no_module_imports_itself_by_way_of_others():
    """Lazy imports count, and those for type checkers."""
    names = {dotted(path): path for _, path in modules()}

    def seen_by(path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                own = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from (name if name in names else str(node.module) for name in own)

    graph = {name: set(seen_by(path)) & names.keys() for name, path in names.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_no_two_modules_share_a_file_name_but_where_the_folder_tells_them_apart():
    """A command of the line is named as the verb it calls, or as what it is about."""
    found: dict[str, list[str]] = {}
    for room, path in modules():
        if room != "cli" and path.name not in ("__init__.py", "__main__.py"):
            found.setdefault(path.name, []).append(dotted(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_two_public_classes_share_a_name():
    found: dict[str, list[str]] = {}
    for _, path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(dotted(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
