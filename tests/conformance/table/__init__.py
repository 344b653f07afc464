"""Which case is shown by which test; the tables behind the markers `case_B30` and `hole_7`."""
