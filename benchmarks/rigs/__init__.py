"""Rigs that measures and proofs are built on: runs that are killed, pools, clients and servers with a known pace."""
