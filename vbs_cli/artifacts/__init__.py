"""What a run can have: the recipe of each artifact and the function that makes it; `plan` enters them into one graph.

Nothing here is a command and nothing prints. The order of the making: trainings, passes, fits, tables, figures, report
and exports.
"""
