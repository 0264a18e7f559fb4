"""Graphs, state and errors under one roof. Importing loads nothing; a name loads what it needs."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

if TYPE_CHECKING:
    from tenxgraph.core.exceptions import (
        EffectLostError,
        GraphError,
        GraphRecursionError,
        InterruptConflictError,
        InvalidInputError,
        NodeError,
        NodeTimeoutError,
        RunCancelledError,
        RunTimeoutError,
        SerializationError,
        StaleStateError,
        StorageError,
        TenxGraphError,
        ThreadBusyError,
        ThreadOwnerError,
    )
    from tenxgraph.core.graph import (
        Agent,
        CompiledGraph,
        RetryPolicy,
        RunHandle,
        RunStatus,
        StateGraph,
        StateSnapshot,
        ToolNode,
    )
    from tenxgraph.core.state import (
        AgentState,
        AnnotationBlock,
        AnnotationRef,
        AudioBlock,
        BaseContextManager,
        ContentBlock,
        DataBlock,
        DocumentBlock,
        ErrorBlock,
        ExecMeta,
        ExecutionState,
        ExecutionStatus,
        ImageBlock,
        MediaRef,
        Message,
        MessageContextManager,
        MessageView,
        ReasoningBlock,
        RemoteToolCallBlock,
        StopRequestStatus,
        StreamChunk,
        StreamEvent,
        SummaryContextManager,
        TextBlock,
        TokenUsages,
        ToolCallBlock,
        ToolResult,
        ToolResultBlock,
        VideoBlock,
        add_messages,
        append_items,
        generate_id,
        remove_tool_messages,
        replace_messages,
        replace_value,
    )

__all__ = [
    "Agent",
    "AgentState",
    "AnnotationBlock",
    "AnnotationRef",
    "AudioBlock",
    "BaseContextManager",
    "CompiledGraph",
    "ContentBlock",
    "DataBlock",
    "DocumentBlock",
    "EffectLostError",
    "ErrorBlock",
    "ExecMeta",
    "ExecutionState",
    "ExecutionStatus",
    "GraphError",
    "GraphRecursionError",
    "ImageBlock",
    "InterruptConflictError",
    "InvalidInputError",
    "MediaRef",
    "Message",
    "MessageContextManager",
    "MessageView",
    "NodeError",
    "NodeTimeoutError",
    "ReasoningBlock",
    "RemoteToolCallBlock",
    "RetryPolicy",
    "RunCancelledError",
    "RunHandle",
    "RunStatus",
    "RunTimeoutError",
    "SerializationError",
    "StaleStateError",
    "StateGraph",
    "StateSnapshot",
    "StopRequestStatus",
    "StorageError",
    "StreamChunk",
    "StreamEvent",
    "SummaryContextManager",
    "TenxGraphError",
    "TextBlock",
    "ThreadBusyError",
    "ThreadOwnerError",
    "TokenUsages",
    "ToolCallBlock",
    "ToolNode",
    "ToolResult",
    "ToolResultBlock",
    "VideoBlock",
    "add_messages",
    "append_items",
    "generate_id",
    "remove_tool_messages",
    "replace_messages",
    "replace_value",
]

# Hidden from type checkers, which would take any name for granted beside a module's own __getattr__.
if not TYPE_CHECKING:
    _GRAPH = frozenset(
        {"Agent", "CompiledGraph", "RetryPolicy", "RunHandle", "RunStatus", "StateGraph", "StateSnapshot", "ToolNode"}
    )

    def _home(name: str) -> str:
        if name in _GRAPH:
            return "tenxgraph.core.graph"
        return "tenxgraph.core.exceptions" if name.endswith("Error") else "tenxgraph.core.state"

    __getattr__, __dir__ = lazy(__name__, {name: _home(name) for name in __all__})
