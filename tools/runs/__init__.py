"""`millrace runs`, `rm`, `pause`, `resume`, `drain` and `redis-cli`: runs on this machine, and their folders."""
