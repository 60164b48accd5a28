"""Reports of runs and comparisons of several runs as HTML files, and the tables in them."""
