"""Hypothesis: cores against naive models, codecs against hostile bytes."""
