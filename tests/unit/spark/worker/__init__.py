"""Mirrors spark/pyspark_oncelog/worker."""
