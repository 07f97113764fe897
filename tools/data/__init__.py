"""The verb `data`: what a configuration's data are, before a run is started."""
