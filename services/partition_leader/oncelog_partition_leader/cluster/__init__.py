"""The controller and its parts: registration, failure detection, elections, topics, reassignment of replicas."""
