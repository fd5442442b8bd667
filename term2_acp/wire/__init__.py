"""The wire types of each protocol version, and the converters at the border."""
