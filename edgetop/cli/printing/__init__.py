"""Prints reports, comparisons and results as text, Markdown, HTML pages and JUnit XML."""
