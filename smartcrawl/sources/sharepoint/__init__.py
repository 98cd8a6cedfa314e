"""Document libraries as sources: domains, names on disk, and the maps that describe them (R3)."""
