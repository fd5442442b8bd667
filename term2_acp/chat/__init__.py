"""`term2 chat`: a terminal client of `term2 acp`, which it knows by the protocol alone."""
