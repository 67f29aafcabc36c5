"""Another try of what failed in a run, and of nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from earmark.errors import LedgerError
from earmark.ledger.run_merge import differences
from earmark.ledger.run_reader import Run
from earmark.media.source import as_place
from earmark.pipeline.blurred_run import blurred_like
from earmark.pipeline.run_plan import Plan


def only_failed(plan: Plan, folder: str | Path) -> Plan:
    """The plan for those of its recordings that the run in `folder` failed on.

    All of them where they share a budget: its price is found over all; and where none failed: they
    are answered, and nothing is asked.

    Raises:
        LedgerError: the run was made by other choices: its good recordings would not be in it.
    """
    with Run.open(Path(folder)) as run:
        places, kept = run.failed_paths(), run.plan()
    model = plan.model_choice.model or kept["model"]
    wanted = blurred_like(plan, folder).with_evidence().run_json(model)
    if name := next(differences(kept, json.loads(json.dumps(wanted))), None):
        raise LedgerError(
            f"{folder} was made by other choices: {name} is {kept.get(name)!r} there and "
            f"{wanted.get(name)!r} here; repeat them, or leave out --retry-failed"
        )
    if not places or plan.across:
        return plan
    failed = [source for source in plan.sources() if as_place(source.uris[0]) in places]
    return replace(plan, paths=failed)
