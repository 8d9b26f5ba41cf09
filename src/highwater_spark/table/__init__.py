"""Topic to table: Parquet files that other engines read while they are being written."""
