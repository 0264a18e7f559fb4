"""The one engine: what a client, a worker and the reconciler do with a store, whatever the store and the queue are."""
