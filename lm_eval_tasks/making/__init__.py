"""Making: data of one's own for mFAVA (queries, answers, inserted errors, translations), each step a harness task."""
