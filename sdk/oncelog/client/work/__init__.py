"""Workers of channels: they are given records one by one, and settle each of them."""
