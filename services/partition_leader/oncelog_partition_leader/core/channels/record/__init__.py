"""One record of a channel: its states, and each step between them."""
