"""The parts of `replica_manager`: opening and closing logs, giving roles, hosting leaderships, upkeep."""
