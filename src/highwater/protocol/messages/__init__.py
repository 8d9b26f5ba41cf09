"""Every message of the wire, one file per API."""
