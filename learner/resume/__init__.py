"""Continue a run: earlier incarnations, allowed changes of configuration, recovery and replay."""
