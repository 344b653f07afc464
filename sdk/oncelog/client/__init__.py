"""The asyncio shells of the client: they carry out what the pure core decides."""
