"""The asyncio client. It runs on ports (transport, clock, randomness), so also inside the deterministic simulation."""
