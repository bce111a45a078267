"""The host-memory ``mps`` device: its C++ extension, and what it refuses."""
