"""`python -m mps_pointops doctor`: what is installed and active, what is wrong, what to run."""
