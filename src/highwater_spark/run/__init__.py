"""Running a pipeline: its queries, its state between runs, its progress, and what to do when something fails."""
