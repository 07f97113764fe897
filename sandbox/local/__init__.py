"""The sandbox on this machine: a supervisor's orders, one run's preparation and execution, and the self-test."""
