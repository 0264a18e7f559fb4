"""The ``tenxgraph`` command: one module for each noun. Importing them costs typer and no more."""
