"""The asyncio client against a scripted cluster, in virtual time."""
