"""For every target the positions that point to it, ascending."""
