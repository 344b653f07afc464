"""Finding the process to ask: metadata of the cluster, calls that go on until a process answers, offsets of many leaders."""
