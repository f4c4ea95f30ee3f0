"""RAGTruth and FaithBench: RAG answers and summaries in English whose unsupported spans people marked (Niu et al. 2024)"""
