"""Found by the processes that a program under `python -m tutti.horovod` starts, such as workers that load data."""

import sys

import tutti.horovod

sys.modules.pop("horovod", None)
tutti.horovod.install()
sys.modules["horovod"] = tutti.horovod
