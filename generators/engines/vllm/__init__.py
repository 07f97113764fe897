"""The engine on vLLM: the part in the generator's process, the part in vLLM's workers, and the watch over them."""
