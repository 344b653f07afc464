"""The remote methods about channels and delayed records."""
