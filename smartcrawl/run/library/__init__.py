"""A library's run: its files, maps and steps, what it embeds, and its report."""
