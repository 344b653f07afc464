"""The parts of a client as a whole: its loop and process, its ports and options, and how its parts are closed."""
