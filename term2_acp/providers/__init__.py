"""Models behind the `Provider` port; only the one that is used is imported."""
