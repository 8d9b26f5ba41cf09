"""The consumer protocol (KIP-848): the coordinator assigns, members report, nobody stops for the others."""
