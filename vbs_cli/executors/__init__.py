"""Many processes at one run: commands out, what they tell and how they ended back. Nothing here knows what they do."""

from vbs_cli.executors.base import Crew, Outcome
from vbs_cli.executors.local import Local, cores
from vbs_cli.executors.relay import Messages, Relay, is_child

__all__ = ["Crew", "Local", "Messages", "Outcome", "Relay", "cores", "is_child"]
