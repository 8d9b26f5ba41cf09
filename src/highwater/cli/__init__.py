"""The command line: thin commands over Kafka's own protocol and the files on disk."""
