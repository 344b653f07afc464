"""What all tests share: no test is judged by how long it takes, since a busy machine is no bug."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("oncelog", deadline=None)
settings.load_profile("oncelog")
