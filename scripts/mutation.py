"""Breaks the code on purpose, a little and at random, and counts how often the tests notice.

    python scripts/mutation.py selection --mutants 80 [--seed 1] [--seconds 3600]

The tests of a package are run once, noting which functions each of them calls. Then one expression
of a function is changed at a time (`<` to `<=`, `+` to `-`, `and` to `or`, a number by one, a
condition to its opposite) in a forked process, and the tests that call the function are run there,
the quickest first, until one fails. What no test notices is listed; lines of
`scripts/mutation_equivalents.txt` are changes that change nothing, and are not counted. Texts of
messages, numbers of a module's head and code that only other processes run are not changed.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import os
import pkgutil
import random
import signal
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = Path(__file__).with_name("mutation_equivalents.txt")
PACKAGES = {
    "media": ["tests/media"],
    "ledger": ["tests/ledger"],
    "selection": ["tests/selection", "tests/pipeline/test_select.py"],
    "captioning": [
        f"tests/captioning/test_{name}.py"
        for name in ("chat_reply", "dispatch", "openai_captioner", "request", "question", "prompt")
    ],
}
"""The packages, and the tests that are to notice."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change to one function."""

    module: str
    function: str
    line: int
    change: str
    place: int
    """Of the change among those of the module."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.change}"


class Changes(ast.NodeTransformer):
    """Lists every change to a module, and makes the one that is `wanted`."""

    def __init__(self, module: str, wanted: int = -1) -> None:
        self.module, self.wanted = module, wanted
        self.found: list[Mutant] = []
        self._names: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Its body; not its head."""
        self._names.append(node.name)
        node.body = [self.visit(each) for each in node.body]
        self._names.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Its functions; not its fields."""
        self._names.append(node.name)
        node.body = [self.visit(each) for each in node.body if not isinstance(each, ast.AnnAssign)]
        self._names.pop()
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """What it says is a text."""
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """A text."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """What is assigned; not its type."""
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`<` to `<=`, `==` to `!=` and so on."""
        self.generic_visit(node)
        other = SWAPS.get(type(node.ops[0]))
        if other and self._chooses(node, ast.Compare(node.left, [other()], node.comparators)):
            node.ops = [other(), *node.ops[1:]]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`+` to `-` and so on."""
        self.generic_visit(node)
        other = SWAPS.get(type(node.op))
        if other and self._chooses(node, ast.BinOp(node.left, other(), node.right)):
            node.op = other()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`and` to `or`."""
        self.generic_visit(node)
        other = SWAPS[type(node.op)]
        if self._chooses(node, ast.BoolOp(other(), node.values)):
            node.op = other()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """A condition to its opposite."""
        self.generic_visit(node)
        opposite = ast.UnaryOp(ast.Not(), node.test)
        if self._chooses(node.test, opposite):
            node.test = opposite
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A number by one."""
        if isinstance(node.value, bool):
            other = ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            other = ast.Constant(node.value + 1)
        else:
            return node
        return other if self._chooses(node, other) else node

    def _chooses(self, old: ast.AST, new: ast.AST) -> bool:
        if not self._names:
            return False
        change = f"{ast.unparse(old)} -> {ast.unparse(ast.fix_missing_locations(new))}"
        line = getattr(old, "lineno", 0)
        place = len(self.found)
        self.found.append(Mutant(self.module, ".".join(self._names), line, change, place))
        return place == self.wanted


class Watch:
    """A pytest plugin that notes the functions of a package each test calls, and how long it took.

    Functions are known by file and first line, so that those of threads are among them.
    """

    def __init__(self, folder: str) -> None:
        self.callers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self.failed = 0
        self._folder = folder

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test."""
        seen: set[tuple[str, str]] = set()

        def note(frame: types.FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(self._folder):
                seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

        threading.setprofile(note)
        sys.setprofile(note)
        began = time.process_time()
        yield
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        for one in seen:
            self.callers[one][item.nodeid] = time.process_time() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures."""
        self.failed += report.failed


def modules_of(package: str) -> list[types.ModuleType]:
    """Every module of a package, imported."""
    top = importlib.import_module(f"earmark.{package}")
    names = [one.name for one in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")]
    return [importlib.import_module(name) for name in names]


def functions_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of every function in a piece of code."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from functions_of(inner)


def put_in_place(mutant: Mutant) -> None:
    """Give every function of the module, wherever it is held, its code after the change."""
    module = sys.modules[mutant.module]
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    tree = ast.fix_missing_locations(Changes(mutant.module, mutant.place).visit(tree))
    code = compile(tree, str(module.__file__), "exec", dont_inherit=True)
    changed = {one.co_qualname: one for one in functions_of(code)}
    for held in gc.get_objects():
        if isinstance(held, types.FunctionType) and held.__module__ == mutant.module:
            new = changed.get(held.__code__.co_qualname)
            if new is not None and new.co_freevars == held.__code__.co_freevars:
                held.__code__ = new


def is_noticed(mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Whether a test fails, or does not come to its end, in a process with the change."""
    child = os.fork()
    if not child:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        put_in_place(mutant)
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]) != 0))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def sample(options: argparse.Namespace, watch: Watch) -> list[tuple[Mutant, list[str]]]:
    """Mutants of functions that tests call or that none does, drawn at random, with those tests."""
    known = set(EQUIVALENTS.read_text(encoding="utf-8").splitlines())
    every: list[tuple[Mutant, list[str]]] = []
    for module in modules_of(options.package):
        if options.only not in module.__name__:
            continue
        changes = Changes(module.__name__)
        changes.visit(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        for mutant in changes.found:
            callers = watch.callers.get((str(module.__file__), mutant.function), {})
            name = f"{mutant.module} {mutant.function}: {mutant.change}"
            if name not in known:
                every.append((mutant, sorted(callers, key=callers.__getitem__)))
    return random.Random(options.seed).sample(every, min(options.mutants, len(every)))


def main() -> None:
    """Measure one package, and print the share noticed and what was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--mutants", type=int, default=80)
    parser.add_argument("--only", default="", help="modules with this in their name")
    parser.add_argument("--tests", nargs="*", help="in place of all tests of the package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-tests", type=int, default=25, help="run of each mutant's callers")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no more is begun")
    options = parser.parse_args()
    os.chdir(ROOT)
    modules_of(options.package)
    watch = Watch(str(ROOT / "src" / "earmark" / options.package))
    tests = options.tests or PACKAGES[options.package]
    pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[watch])
    if watch.failed:
        sys.exit("the tests fail before anything is changed")
    began, noticed, survived, uncalled = time.monotonic(), 0, [], []
    for mutant, callers in sample(options, watch):
        if time.monotonic() - began > options.seconds:
            break
        if not callers:
            uncalled.append(mutant)
        elif is_noticed(mutant, callers[: options.most_tests], seconds=300.0):
            noticed += 1
        else:
            survived.append(mutant)
            print(f"survived  {mutant}", flush=True)
    total = noticed + len(survived) + len(uncalled)
    for mutant in uncalled:
        print(f"uncalled  {mutant}")
    print(f"{options.package}: {noticed} of {total} noticed, {noticed / max(1, total):.0%}")


if __name__ == "__main__":
    main()
