"""Celery's consumer, which a lost connection does not end."""

import logging

from celery.worker.consumer import Consumer

_logger = logging.getLogger(__name__)


class LastingConsumer(Consumer):
    """Connects again also where closing the lost connection fails.

    kombu closes a channel by putting its unacknowledged messages back, over a connection that it has taken apart already:
    an AttributeError, for which Celery ends the worker. Nothing is lost with them here: the scheduler sends them again.
    """

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Let go of a connection that is lost."""
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError as error:
            _logger.warning("the lost connection could not be closed: %s", error)
