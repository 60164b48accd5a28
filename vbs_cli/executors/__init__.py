"""Running commands in many processes, here or on a cluster, and relaying their messages, progress and outcomes."""

from vbs_cli.executors.base import Crew, Outcome
from vbs_cli.executors.local import Local, cores
from vbs_cli.executors.relay import Messages, Relay, is_child

__all__ = ["Crew", "Local", "Messages", "Outcome", "Relay", "cores", "is_child"]
