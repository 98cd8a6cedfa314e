"""Items of document libraries: their rows, and their files on disk in step with the registry."""
