"""A consumer that shares partitions with the other members of its group, and the offsets that the group keeps."""
