"""The server's end of links: who is let in, which requests are taken, and what is observed of them."""
