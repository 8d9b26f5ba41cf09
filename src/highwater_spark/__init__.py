"""Data pipelines on Spark that read from and write to any Kafka-protocol broker."""
