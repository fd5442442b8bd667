"""The tools of the agent (spec section 7), one module each."""
