"""What commands print: reports, comparisons and results as text, as a page and as JUnit XML."""
