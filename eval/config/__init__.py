"""Settings: the Hydra config groups, their types, and the sentences for what is wrong with them."""

from eval.config.application import (
    check_flags,
    check_groups,
    check_keys,
    compose,
    is_multirun,
    job_overrides,
    multirun_name,
    quoted,
    run_folder,
    run_with_hydra,
)
from eval.config.building import build
from eval.config.sentences import named_in
from eval.config.settings import plain, plain_value, recall_options

__all__ = [
    "build",
    "check_flags",
    "check_groups",
    "check_keys",
    "compose",
    "is_multirun",
    "job_overrides",
    "multirun_name",
    "named_in",
    "plain",
    "plain_value",
    "quoted",
    "recall_options",
    "run_folder",
    "run_with_hydra",
]
