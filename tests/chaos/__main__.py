"""``python -m tests.chaos``: kill, pause, cut, drop and double for minutes, and compare with the oracle."""

import argparse
import logging
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.chaos.run import Plan, run_chaos


def main() -> int:
    """Return 0 if all held."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    logging.getLogger("tenxgraph").setLevel(logging.CRITICAL)  # what clients and oracle meet is meant to be met
    plan = Plan(
        options.threads, options.in_flight, options.seconds, seed=options.seed, only=options.only, steps=options.steps
    )
    _say(f"seed {plan.seed}; logs in {folder}")
    report = run_chaos(plan, folder, _say)
    _say(str(report))
    is_well = not report.violations
    if not is_well:
        _say(f"NOT WELL: run it again with --seed {plan.seed}; logs and ledger are in {folder}")
    elif not options.keep:
        shutil.rmtree(folder)
    return 0 if is_well else 1


def _options() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--threads", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=180, help="go on with more threads until then")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--only", default="", help="faults whose kind holds this text, such as 'killed'")
    parser.add_argument("--steps", choices=("task", "sticky"), default="task", help="how steps travel")
    parser.add_argument("--keep", action="store_true", help="keep logs and ledger also if all is well")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
