"""The gRPC server: links, unary calls, TLS, tokens, and bounds on what a peer may hold."""
