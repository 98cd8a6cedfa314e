"""Pages for a browser: templates, styles, sessions, and what each page shows."""
