"""Spans: the port that working code sees, the names in spans, and OpenTelemetry behind it."""
