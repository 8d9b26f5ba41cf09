"""What clients did and saw, and what of it must never be: the same for simulated runs and for real processes."""
