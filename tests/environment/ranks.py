"""One rank of a distributed run on CPU: ``python -m tests.environment.ranks SETTINGS`` (JSON), once for each rank.

The harness's ``hf`` model splits documents only where it sees several GPUs. Here the ranks meet through gloo, and all that
is behind the model (requests, padding, filters, the gathering of values and samples) is the harness's own.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any


def distributed(kind: type[Any], rank: int, world_size: int) -> type[Any]:
    """A model class whose instances are a rank of several."""
    import torch
    import torch.distributed as dist

    class Ranked(kind):  # type: ignore[misc]
        device = torch.device("cpu")

        @property
        def rank(self) -> int:
            return rank

        @property
        def world_size(self) -> int:
            return world_size

        def all_gather(self, tensor: Any) -> Any:
            parts = [torch.zeros_like(tensor) for _ in range(world_size)]
            dist.all_gather(parts, tensor)
            return torch.stack(parts)

        def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
            parts = [None] * world_size if rank == dst else None
            dist.gather_object(obj, parts, dst=dst)
            return parts

        def barrier(self) -> None:
            dist.barrier()

    return Ranked


def main(settings: dict[str, Any]) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness.autoload import task_folder

    rank, world_size = settings["rank"], settings["world_size"]
    if settings["model"] == "hf":
        from lm_eval.models.huggingface import HFLM as kind
    else:
        from lm_eval_tasks.models.baseline import GroundedBaseline as kind  # type: ignore[assignment]
    if world_size > 1:
        import torch.distributed as dist

        of_rank = {"rank": rank, "world_size": world_size, "timeout": timedelta(seconds=400)}
        dist.init_process_group("gloo", init_method=f"file://{settings['store']}", **of_rank)
        kind = distributed(kind, rank, world_size)
    results = simple_evaluate(
        model=kind(**settings["model_args"]),
        tasks=settings["tasks"],
        task_manager=TaskManager(include_path=task_folder(), include_defaults=False, metadata=settings["metadata"]),
        limit=settings["limit"],
        gen_kwargs=settings["gen_kwargs"],
    )
    if rank == 0:
        kept = {key: results[key] for key in ("results", "n-samples", "samples")}
        kept["figures"] = {task: config["metadata"]["figures"] for task, config in results["configs"].items()}
        Path(settings["output"]).write_text(json.dumps(kept, default=str, allow_nan=False), "utf-8")
    if world_size > 1:  # a process that ends before its threads have is aborted
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
