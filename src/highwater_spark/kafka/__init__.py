"""What a pipeline asks of the brokers outside of Spark: which topics are there, and records to look at or send back."""
