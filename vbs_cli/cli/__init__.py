"""The command line. Nothing here imports torch before a command needs it."""

from vbs_cli.cli.commands import app
from vbs_cli.cli.main import main

__all__ = ["app", "main"]
