"""A background job that reviews the text documents of a folder and writes a report about them."""
