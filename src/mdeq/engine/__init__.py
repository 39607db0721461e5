"""Training, evaluation and prediction: what happens to models and data together."""

from mdeq.engine.bundle import Bundle, open_bundle
from mdeq.engine.devices import create_accelerator, keep_freed_memory
from mdeq.engine.divergence import DivergedError
from mdeq.engine.evaluation import evaluate, together
from mdeq.engine.interruption import InterruptedRun
from mdeq.engine.losses import task_loss
from mdeq.engine.prediction import Prediction, predict, stream
from mdeq.engine.recipe import Recipe, list_recipes, read_yaml, recipe_file
from mdeq.engine.report import budgets_table, figures_table
from mdeq.engine.tasks import by_task
from mdeq.engine.trainer import Trainer
from mdeq.engine.training import resume_run, start_run

__all__ = [
    "Bundle",
    "DivergedError",
    "InterruptedRun",
    "Prediction",
    "Recipe",
    "Trainer",
    "budgets_table",
    "by_task",
    "create_accelerator",
    "evaluate",
    "figures_table",
    "keep_freed_memory",
    "list_recipes",
    "open_bundle",
    "predict",
    "read_yaml",
    "recipe_file",
    "resume_run",
    "start_run",
    "stream",
    "task_loss",
    "together",
]
