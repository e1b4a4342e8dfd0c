"""Reports, comparisons and results as text, as HTML pages and as JUnit XML."""
