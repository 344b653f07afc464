"""Bad inputs by number: every request that no honest client sends, what it is told, and that nothing comes of it.

`rows.py` has the numbers; `batches.py`, `sessions.py`, `reads.py` and `admin.py` have rows that run both in a simulated cluster
and against real processes over real sockets; `cores.py` has rows about a single core, `doors.py` rows about sockets alone.
"""
