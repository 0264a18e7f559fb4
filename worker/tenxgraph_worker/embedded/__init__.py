"""The store that comes with a folder: a Valkey or Redis of its own, shared by those who work in the folder."""
