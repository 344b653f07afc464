"""Reads, works and writes, each input once: the loop behind `Client.process`."""
