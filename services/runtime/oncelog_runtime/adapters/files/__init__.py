"""The data directory on a real file system."""
