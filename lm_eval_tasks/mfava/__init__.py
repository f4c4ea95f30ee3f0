"""mFAVA: hallucination detection, and hallucination rates in the wild, in 30 languages."""
