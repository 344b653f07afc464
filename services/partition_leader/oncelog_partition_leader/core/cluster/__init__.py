"""Pure decisions of the controller and of cluster membership."""
