"""The chart's own programs, run as its pods run them."""
