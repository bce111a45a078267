"""One tree of width 32 over points of up to three coordinates, for every search."""
