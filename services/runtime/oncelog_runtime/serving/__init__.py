"""What serving a call needs, whatever the transport: who calls, what he may use up, where else to go."""
