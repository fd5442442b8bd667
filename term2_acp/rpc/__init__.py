"""JSON-RPC 2.0 over stdio: framing, the threads that own the pipes, dispatch."""
