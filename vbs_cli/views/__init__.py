"""How trained weights are read."""
