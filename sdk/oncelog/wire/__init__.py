"""The remote methods and how errors travel: shared by clients and services."""
