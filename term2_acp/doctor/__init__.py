"""`term2 doctor`: what is wrong on this machine, and what to do; imported only by that command."""
