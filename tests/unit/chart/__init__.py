"""The chart's files, as far as they can be checked without Helm."""
