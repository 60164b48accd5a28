"""Artifacts of a run: the recipe of each and the function that makes it; `plan` collects them in one graph.

Nothing here is a command and nothing prints. Artifacts are made in this order: trainings, passes, fits, tables,
figures, report and exports.
"""
