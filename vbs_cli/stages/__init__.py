"""One module per subcommand: load -> pure code -> save. Nothing here prints.

Every stage lists its artifacts with the recipes that make them (`targets`), makes those that are not up to date, and
leaves the rest alone; so running again is cheap, and what was interrupted goes on.
"""
