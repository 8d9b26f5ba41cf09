"""A pipeline as a file: what it may say, whether it says it rightly, and its picture."""
