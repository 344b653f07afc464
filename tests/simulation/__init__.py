"""The whole cluster in one process on a virtual clock: production classes, seeded faults, checked histories."""
