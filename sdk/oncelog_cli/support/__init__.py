"""Verbs that help people: `explain`, `log`, `debug`, `profile`, `completion`."""
