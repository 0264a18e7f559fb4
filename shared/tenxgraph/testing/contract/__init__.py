"""The store contract, one part of the port a module. Import :class:`tenxgraph.testing.store_contract.StoreContract`."""
