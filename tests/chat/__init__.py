"""The terminal client: driven on a pseudo-terminal and over pipes, and its parts."""
