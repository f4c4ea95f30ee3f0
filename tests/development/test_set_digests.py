"""Make ``contamination.tsv`` of a benchmark from the files of the mirror in force, or of the cache.

``python -m tests.development.test_set_digests memerag > lm_eval_tasks/memerag/contamination.tsv``
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    dataset = import_module(f"lm_eval_tasks.{sys.argv[1]}.dataset")
    digests = sorted(dataset.TEST_SET.digests_of_files(None))
    print("digests", *(" ".join(digests[place : place + 10]) for place in range(0, len(digests), 10)), sep="\n")
