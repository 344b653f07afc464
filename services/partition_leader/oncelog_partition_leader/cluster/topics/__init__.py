"""Topics: the calls that create, alter and delete them, and what keeps their partitions complete."""
