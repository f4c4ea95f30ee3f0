"""RAGTruth: RAG answers and summaries in English whose unsupported spans people marked (Niu et al. 2024)"""

PARTS = {"qa": "QA", "summary": "Summary", "data2txt": "Data2txt"}
"""Part of the test set, as a task's name ends, to its ``task_type`` in the authors' files."""
