"""The support agent on workers that it starts itself: the conversation of its page, and nothing left running."""

import subprocess
import sys
from pathlib import Path

from examples.support.shop import list_refunds
from tests.acceptance.command_line import environment
from tests.acceptance.workers import REPOSITORY
from tests.servers import Server

QUICK = {"TENXGRAPH_LEASE_S": "2", "TENXGRAPH_HEARTBEAT_S": "0.5", "TENXGRAPH_SCAN_S": "0.2"}
PAGE = REPOSITORY / "docs" / "how-to" / "run-a-support-agent.md"


def test_the_support_agent_plays_its_page_on_workers_and_pays_once(valkey_server: Server, tmp_path: Path) -> None:
    shop = tmp_path / "shop.sqlite"
    done = subprocess.run(
        [sys.executable, "-m", "examples.support", "--database", str(shop)],
        cwd=REPOSITORY,
        env=environment({**QUICK, "TENXGRAPH_REDIS_URL": f"redis://127.0.0.1:{valkey_server.port}/2"}),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == PAGE.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert list_refunds(shop) == [(1042, "desk lamp", 3990)]
