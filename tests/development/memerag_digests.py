"""Make ``lm_eval_tasks/memerag/contamination.tsv`` from the files of the mirror in force, or of the cache.

``python -m tests.development.memerag_digests > lm_eval_tasks/memerag/contamination.tsv``
"""

from lm_eval_tasks.memerag.dataset import digests_of_files

if __name__ == "__main__":
    print(*("digest", *sorted(digests_of_files(None))), sep="\n")
