"""The methods of each protocol version, and the projection of events onto its wire."""
