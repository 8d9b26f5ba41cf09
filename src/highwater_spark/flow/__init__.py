"""How rows flow: records to views, views through transforms, rows to records and tables. Pure; jobs read and write."""
