"""The gRPC server: links, unary calls, TLS, tokens, and limits on the memory that a peer may occupy."""
