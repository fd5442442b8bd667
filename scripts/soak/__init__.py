"""Soak: a server that lives under an editor, and with a model, that behave badly."""
