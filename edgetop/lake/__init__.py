"""A lake: the recordings of many boards in one folder or bucket, and questions to all of them.

`TABLE/date=YYYY-MM-DD/board=ID/SESSION.parquet` are the tables of sessions, as they were recorded. The table `sessions`
has one row a session, which is written last: what has no row there is not in the lake.
"""
