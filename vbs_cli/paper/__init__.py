"""The paper's claims, and which of them a run shows."""
