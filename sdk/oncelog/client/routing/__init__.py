"""Finding the process to ask: metadata of the cluster, calls that go on until somebody answers, offsets of many leaders."""
