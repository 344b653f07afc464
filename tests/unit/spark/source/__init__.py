"""Mirrors spark/pyspark_oncelog/source."""
