"""Everything that can be said against the files of a log, without changing them."""
