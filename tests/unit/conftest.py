"""Loads what cannot be imported where every warning is an error."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # jsonrpcserver 5.0.9 reads its schema by a deprecated call when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver  # noqa: F401
