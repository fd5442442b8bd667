"""Files as the tools of a session reach them: only what was allowed, and never through a link."""
