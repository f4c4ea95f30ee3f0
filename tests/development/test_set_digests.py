"""Make ``contamination.tsv`` of a benchmark from the files of the mirror in force, or of the cache.

``python -m tests.development.test_set_digests memerag > lm_eval_tasks/memerag/contamination.tsv``
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    dataset = import_module(f"lm_eval_tasks.{sys.argv[1]}.dataset")
    print(*("digest", *sorted(dataset.TEST_SET.digests_of_files(None))), sep="\n")
