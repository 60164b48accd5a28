"""One module per subcommand: plan the run's artifacts, have the due ones made, return what is to be shown.

Nothing here prints.
"""
