"""Unit tests of the producer id service."""
