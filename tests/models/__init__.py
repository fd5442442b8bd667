"""Model services for tests: real HTTP on loopback, scripted, as strict as the vendors."""
