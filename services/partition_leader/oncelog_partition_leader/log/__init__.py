"""The log of one partition on one disk: segments, reads, recovery, and its options."""
