"""The agent: the loop and the ports that providers and tools plug into."""
