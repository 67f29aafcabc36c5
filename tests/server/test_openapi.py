"""The OpenAPI document is what the server does: schemathesis asks whatever the document allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

from archive_runs import tell_archive  # noqa: E402
from earmark.pipeline.session import open_session  # noqa: E402
from earmark.server.application import make_app  # noqa: E402
from earmark.server.run_library import (  # noqa: E402
    RunLibrary,
    Service,
    key_of,
)

TOKEN = "a-token-of-the-tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
ENDLESS = "/api/runs/{run}/events"
EXAMPLES = 12
"""Of each operation."""


def test_whatever_the_document_allows_is_answered_as_it_says(tmp_path: Path):
    folder = tell_archive(tmp_path.resolve() / "run", recordings=3)
    service = Service(RunLibrary([tmp_path]), open_session(rule="uniform"))
    app = make_app(service, token=TOKEN, rate=1e9)
    document = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HEADERS)
    names = {"run": key_of(folder), "recording": f"{1:064x}"}
    checked = [
        check(found.ok(), names) for found in document.exclude(path=ENDLESS).get_all_operations()
    ]
    assert len(checked) > 18


def check(operation: Any, names: dict[str, str]) -> str:
    """Ask some of what `operation` allows, half of it of the run that is there."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        known = {name: names[name] for name in case.path_parameters if name in names}
        if len(str(case.path_parameters.get("run", ""))) % 2:
            case.path_parameters.update(known)
        # The document cannot say which recordings there are, nor which words are too many.
        case.call_and_validate(headers=HEADERS, excluded_checks=[positive_data_acceptance])

    ask()
    return str(operation.label)
