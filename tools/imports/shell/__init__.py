"""A script is run by bash itself, behind the sandbox's walls, and what reaches each program is written down."""
