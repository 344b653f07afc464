"""Settings of the process that uses oncelog: what they are worth was measured, and each is made once, early."""
