"""Breaks the code on purpose, a little and at random, and counts how often the tests notice.

    python scripts/mutation.py media --mutants 120 [--seed 1] [--only mp4_boxes] [--minutes 15]

The tests of a package are run once, noting which lines each of them runs. Then one expression is
changed at a time (`<` to `<=`, `+` to `-`, `and` to `or`, a number by one, a condition to its
opposite, a call to none) in a process forked from this one, which has everything imported and the
fixtures made, and the tests that run the line are run there, those of the module's own file and the
quickest first, until one fails.
What no test notices is listed, and so are changes to lines that no test runs: both count against
the tests. A test that takes ten times as long as it did, and three seconds, has noticed; how many
were noticed in no other way is said. Some processes are forked with no change, to see that the
tests fail for no other reason.

Not changed: texts, the heads of modules, classes and functions, what is logged, `strict` of `zip`
(which is an assertion, of what cannot happen), and what
`scripts/mutation_equivalents.txt` lists as changing nothing, a line each as it is printed here
without the line number, below the reason.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import math
import os
import pkgutil
import random
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import coverage
import pytest

BEGAN = time.monotonic()
ROOT = Path(__file__).resolve().parents[1]
EQUIVALENTS = Path(__file__).with_name("mutation_equivalents.txt")

PACKAGES = {
    "media": ("media", "", ["tests/media", "--ignore-glob=*test_demo*"]),
    "run": (
        "run",
        "",
        [
            "tests/run",
            "--ignore=tests/run/test_killed.py",
            "--ignore=tests/run/test_disk_faults.py",
        ],
    ),
    "selection": ("selection", "", ["tests/selection", "tests/gate/test_episodes.py"]),
    "client": (
        "captioning",
        "openai chat_ dispatch answer_files request captioner",
        [
            f"tests/captioning/test_{name}.py"
            for name in (
                *("captioner_choice", "chat_protocol", "dispatch", "openai_batch"),
                *("openai_captioner", "prompt", "question", "replay", "request"),
            )
        ],
    ),
}
"""The package, what its modules have in their names if not all are meant, and the tests.

Tests whose work other processes do are left out: what is changed is changed in this one.
"""

LEFT_OUT = ("local_captioners",)
"""Modules that are not changed: other clients."""

OTHERS: dict[type[ast.AST], type[ast.AST]] = {
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
    lines: tuple[int, int]
    """First and last."""
    change: str
    place: int
    """Of the change among those of the module."""

    @property
    def name(self) -> str:
        """What it is, wherever it stands."""
        return f"{self.module.removeprefix('earmark.')} {self.function}: {self.change}"

    def __str__(self) -> str:
        return f"{self.name}  (line {self.lines[0]})"


class Changes(ast.NodeTransformer):
    """Lists every change to a module, and makes the one that is `wanted`."""

    def __init__(self, module: str, wanted: int = -1) -> None:
        self.module, self.wanted = module, wanted
        self.found: list[Mutant] = []
        self._names: list[str] = []

    def visit(self, node: ast.AST) -> Any:
        """The node, or what stands in its place."""
        node = super().visit(node)
        for old, new in self._changes(node):
            if self._is_wanted(old, new):
                return ast.copy_location(new, old)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Its body; not its head."""
        self._names.append(node.name)
        node.body = [self.visit(each) for each in node.body]
        self._names.pop()
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """As of any other."""
        return self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Its functions; not its fields."""
        self._names.append(node.name)
        node.body = [
            self.visit(one) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) else one
            for one in node.body
        ]
        self._names.pop()
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """What it says is a text."""
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """A text."""
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """What it is given, unless it logs it."""
        is_log = ast.unparse(node.func).startswith(("logger.", "warnings."))
        return node if is_log else self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Its value, unless it says that lists of unequal length cannot be."""
        return node if node.arg == "strict" else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """What is assigned; not its type."""
        node.value = self.visit(node.value) if node.value else None
        return node

    def _changes(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        match node:
            case ast.Compare(left, [operator, *rest], values) if type(operator) in OTHERS:
                yield node, ast.Compare(left, [OTHERS[type(operator)](), *rest], values)
            case ast.BinOp(left, operator, right) if type(operator) in OTHERS:
                yield node, ast.BinOp(left, OTHERS[type(operator)](), right)
            case ast.BoolOp(operator, values):
                yield node, ast.BoolOp(OTHERS[type(operator)](), values)
            case ast.UnaryOp(ast.Not(), operand):
                yield node, operand
            case ast.If(test, body, orelse) | ast.IfExp(test, body, orelse):
                yield node, type(node)(ast.UnaryOp(ast.Not(), test), body, orelse)
            case ast.Expr(ast.Call(function)) if not ast.unparse(function).startswith("logger."):
                yield node, ast.Pass()
            case ast.Constant(value) if (other := another(value)) is not None:
                yield node, ast.Constant(other)

    def _is_wanted(self, old: Any, new: ast.AST) -> bool:
        if not self._names:
            return False
        ast.fix_missing_locations(ast.copy_location(new, old))
        change = " -> ".join(ast.unparse(one).partition("\n")[0] for one in (old, new))
        last = old.test.end_lineno if isinstance(old, ast.If) else old.end_lineno
        mutant = Mutant(
            self.module, ".".join(self._names), (old.lineno, last), change, len(self.found)
        )
        self.found.append(mutant)
        return mutant.place == self.wanted


@dataclass(eq=False)
class Trial:
    """A pytest plugin that runs the tests once as they are, and then against mutants."""

    modules: list[types.ModuleType]
    options: argparse.Namespace
    failed: set[str] = field(default_factory=set)
    """Tests that fail before anything is changed."""

    def pytest_collection(self) -> None:
        """Have drawn examples be few, enough to notice most; and a failing one as it is drawn."""
        from hypothesis import Phase, settings  # which pytest itself must import first

        settings.register_profile(
            "few",
            settings.get_profile("steady"),
            max_examples=20,
            phases=(Phase.explicit, Phase.generate),
        )
        settings.load_profile("few")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        trace = coverage.Coverage(
            data_file=None, config_file=False, include=[str(one.__file__) for one in self.modules]
        )
        taken: dict[str, float] = {}
        trace.start()
        for item, following in pairwise([*session.items, session]):
            trace.switch_context(item.nodeid)
            began = time.monotonic()
            run(item, following)
            taken[item.nodeid] = time.monotonic() - began
        trace.stop()
        for test in self.failed:
            print(f"left out, as it fails: {test}")
            del taken[test]
        session.testsfailed = 0
        Rounds(self.modules, session, trace.get_data(), taken).try_all(self.options)
        return True


class Rounds:
    """The mutants of some modules, tried one after the other."""

    def __init__(
        self,
        modules: Sequence[types.ModuleType],
        session: pytest.Session,
        lines: coverage.CoverageData,
        taken: dict[str, float],
    ) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._session, self._taken = session, taken
        self._files = {module.__name__: str(module.__file__) for module in modules}
        self._sources = {
            name: Path(file).read_text(encoding="utf-8") for name, file in self._files.items()
        }
        self._lines = {name: lines.contexts_by_lineno(file) for name, file in self._files.items()}
        everything = gc.get_objects()
        self._functions = [
            held
            for held in everything
            if isinstance(held, types.FunctionType) and held.__module__ in self._files
        ]
        self._caches = [one for one in everything if isinstance(one, functools._lru_cache_wrapper)]
        gc.freeze()  # what the parent left is none of a child's to collect

    def try_all(self, options: argparse.Namespace) -> None:
        """Try as many as are wanted, and print what was noticed and what was not."""
        noticed, missed, false, late = 0, 0, 0, 0
        drawn = self._draw(options)
        for number, mutant in enumerate(drawn):
            if time.monotonic() - BEGAN > 60 * options.minutes:
                drawn = drawn[:number]
                break
            tests = self._tests(mutant)[: options.most_tests]
            ending = self._try(mutant, tests) if tests else 0
            late += ending == -signal.SIGALRM
            if ending:
                noticed += 1
            else:
                missed += 1
                print(f"{'survived' if tests else 'not run '}  {mutant}", flush=True)
            if tests and number % 10 == 0:
                false += self._try(None, tests) != 0
            sys.stderr.write(f"\r{number + 1} of {len(drawn)} tried, {noticed} noticed ")
        low, high = wilson(noticed, noticed + missed)
        print(
            f"{options.package}: {noticed} of {noticed + missed} noticed, "
            f"{noticed / max(1, noticed + missed):.0%} ({low:.0%} to {high:.0%}), "
            f"{late} of them as they did not end; "
            f"{false} of {(len(drawn) + 9) // 10} failed with no change"
        )

    def _draw(self, options: argparse.Namespace) -> list[Mutant]:
        """Mutants at random."""
        known = set(EQUIVALENTS.read_text(encoding="utf-8").splitlines())
        found = [one for name, source in self._sources.items() for one in changes_of(name, source)]
        wanted = [one for one in found if one.name not in known and options.only in one.name]
        return random.Random(options.seed).sample(wanted, min(options.mutants, len(wanted)))

    def _tests(self, mutant: Mutant) -> list[str]:
        """The tests that run what is changed: of the module's own file, then the quickest first."""
        first, last = mutant.lines
        contexts = self._lines[mutant.module]
        running = {test for line in range(first, last + 1) for test in contexts.get(line, ())}
        own = f"test_{mutant.module.rpartition('.')[2]}.py"
        return sorted(
            running & self._taken.keys(), key=lambda test: (own not in test, self._taken[test])
        )

    def _try(self, mutant: Mutant | None, tests: list[str]) -> int:
        """How a process with the change ends: not by 0 if a test fails, or does not end."""
        child = os.fork()
        if not child:
            try:
                self._be_tested(mutant, tests)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it has started
        return os.waitstatus_to_exitcode(status)

    def _be_tested(self, mutant: Mutant | None, tests: list[str]) -> None:
        """The life of a forked process."""
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
        if mutant is not None:
            self._put_in_place(mutant)
        for cache in self._caches:
            cache.cache_clear()
        items = [self._items[test] for test in tests]
        for item, following in pairwise([*items, self._session]):
            signal.setitimer(signal.ITIMER_REAL, 3 + 10 * self._taken[item.nodeid])  # or it ends
            run(item, following)
            if self._session.testsfailed:
                os._exit(1)
        os._exit(0)

    def _put_in_place(self, mutant: Mutant) -> None:
        """Give every function of the module, wherever it is held, its code after the change."""
        tree = ast.parse(self._sources[mutant.module])
        tree = ast.fix_missing_locations(Changes(mutant.module, mutant.place).visit(tree))
        code = compile(tree, self._files[mutant.module], "exec", dont_inherit=True)
        changed = {(one.co_qualname, one.co_firstlineno): one for one in functions_of(code)}
        for held in self._functions:
            old = held.__code__
            new = changed.get((old.co_qualname, old.co_firstlineno))
            if held.__module__ == mutant.module and new and new.co_freevars == old.co_freevars:
                held.__code__ = new


def run(item: pytest.Item, following: pytest.Item | pytest.Session) -> None:
    """Run one test; what `following` needs outlives it, and so the fixtures of the session."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def another(value: object) -> object:
    """A value near this one; None for a text."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case bytes():
            return value + b"?"
    return None


def changes_of(module: str, source: str) -> list[Mutant]:
    """Every change to a module."""
    changes = Changes(module)
    changes.visit(ast.parse(source))
    return changes.found


def functions_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of every function in a piece of code."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from functions_of(inner)


def wilson(hits: int, tries: int, *, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, after Wilson (1927)."""
    if not tries:
        return 0.0, 1.0
    share, spread = hits / tries, z * z / tries
    middle = (share + spread / 2) / (1 + spread)
    reach = z / (1 + spread) * math.sqrt(share * (1 - share) / tries + spread / tries / 4)
    return middle - reach, middle + reach


def modules_of(package: str) -> list[types.ModuleType]:
    """The modules that are changed, imported."""
    name, parts, _ = PACKAGES[package]
    top = importlib.import_module(f"earmark.{name}")
    names = [one.name for one in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")]
    lasts = {one: one.rpartition(".")[2] for one in names}
    wanted = [
        one
        for one, last in lasts.items()
        if any(part in last for part in parts.split() or [""])
        and not any(part in last for part in LEFT_OUT)
    ]
    return [importlib.import_module(one) for one in wanted]


def main() -> None:
    """Measure one package, and print the share noticed and what was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--mutants", type=int, default=120)
    parser.add_argument("--only", default="", help="changes with this in their name")
    parser.add_argument("--tests", nargs="*", help="in place of all tests of the package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-tests", type=int, default=100, help="run against one change")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no other is tried after")
    options = parser.parse_args()
    os.chdir(ROOT)
    trial = Trial(modules_of(options.package), options)
    with tempfile.TemporaryDirectory() as scratch:
        tests = options.tests or PACKAGES[options.package][2]
        plain = [
            "-q",
            "-s",
            "--tb=no",
            "--assert=plain",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
        ]
        pytest.main([*plain, f"--basetemp={scratch}/tests", *tests], plugins=[trial])


if __name__ == "__main__":
    main()
