# The same by a user without privilege: configuration space ends at 64 bytes, the log is closed.
look user nobody
