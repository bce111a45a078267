"""`python -m mps_pointops demo`: the operators on a file of points, checked against references."""
