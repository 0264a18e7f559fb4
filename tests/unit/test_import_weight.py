"""A graph that runs in process needs neither queue nor Redis, and loads neither."""

import subprocess
import sys
import textwrap

CODE = """
    import sys
    import tenxgraph.core.graph
    heavy = ("celery", "kombu", "redis", "flower", "tenxgraph_scheduler", "tenxgraph_worker", "tenxgraph.stream")
    print([name for name in heavy if name in sys.modules])

    graph = tenxgraph.core.graph.StateGraph()
    app = graph.add_node("a", lambda state: "Hello").set_entry_point("a").compile()
    app.get_graph().draw_mermaid()
    print([name for name in heavy if name in sys.modules])

    app.invoke({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
    print([name for name in heavy[:6] if name in sys.modules])
"""


def test_importing_compiling_and_running_a_graph_in_process_loads_neither_celery_nor_redis() -> None:
    code = textwrap.dedent(CODE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", "[]", ""], done.stdout
