"""What every oncelog service stands on: ports, adapters, the simulation, process life."""
