"""``python -m tenxgraph_worker.cli``."""

import sys

from tenxgraph_worker.cli.main import main

sys.exit(main())
