"""The controller and what it needs: registration, failure detection, elections, topics, moving replicas."""
