"""What a process decides about its own bounds; pure."""
