"""State, messages, blocks and reducers: the data that graphs work on."""

from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import (
    AnnotationBlock,
    AudioBlock,
    ContentBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    ReasoningBlock,
    RemoteToolCallBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    VideoBlock,
)
from tenxgraph.core.state.context_manager import BaseContextManager, MessageContextManager, SummaryContextManager
from tenxgraph.core.state.execution_state import ExecMeta, ExecutionState, ExecutionStatus, StopRequestStatus
from tenxgraph.core.state.media import AnnotationRef, MediaRef
from tenxgraph.core.state.message import Message, TokenUsages
from tenxgraph.core.state.message_view import MessageView
from tenxgraph.core.state.reducers import (
    add_messages,
    append_items,
    remove_tool_messages,
    replace_messages,
    replace_value,
)
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph.core.state.tool_result import ToolResult
from tenxgraph.utils.ids import generate_id

__all__ = [
    "AgentState",
    "AnnotationBlock",
    "AnnotationRef",
    "AudioBlock",
    "BaseContextManager",
    "ContentBlock",
    "DataBlock",
    "DocumentBlock",
    "ErrorBlock",
    "ExecMeta",
    "ExecutionState",
    "ExecutionStatus",
    "ImageBlock",
    "MediaRef",
    "Message",
    "MessageContextManager",
    "MessageView",
    "ReasoningBlock",
    "RemoteToolCallBlock",
    "StopRequestStatus",
    "StreamChunk",
    "StreamEvent",
    "SummaryContextManager",
    "TextBlock",
    "TokenUsages",
    "ToolCallBlock",
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
