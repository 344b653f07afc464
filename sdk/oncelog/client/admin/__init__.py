"""Administration: `client.admin`."""
