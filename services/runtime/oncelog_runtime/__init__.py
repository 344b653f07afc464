"""The base of every oncelog service: ports, adapters, the simulation, and the process around a service."""
