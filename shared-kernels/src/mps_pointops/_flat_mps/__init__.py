"""Ragged calls on MPS: sizes, ranges, edges and picks in a few dispatches around one read-back."""
