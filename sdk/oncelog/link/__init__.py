"""The parts that both ends of a link share: its bytes, and TLS."""
