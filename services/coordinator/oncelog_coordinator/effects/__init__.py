"""Runs the effects of decisions: markers to leaders and groups, questions to other shards; and watches the lag of groups."""
