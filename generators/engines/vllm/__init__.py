"""The vLLM engine: the part in the generator's process, the part in vLLM's workers, and the supervision of them."""
