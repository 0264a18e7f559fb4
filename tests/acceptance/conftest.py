"""Fixtures of the acceptance tests."""

from tests.acceptance.workers import deployment
from tests.servers import valkey_server

__all__ = ["deployment", "valkey_server"]
