"""Smoothing around a trained classifier of the user's own: the home of `vbs_cli.wrap`."""
