"""Compiled code: vectors, the search for anchors, streaming updates, batches."""
