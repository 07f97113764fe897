"""Configuration of a run: frozen, documented sections without unknown keys. Imports nothing heavy."""
