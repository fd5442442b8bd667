"""The test client: drives the real program over pipes and judges every line it writes."""
