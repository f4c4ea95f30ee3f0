"""Mu-SHROOM: hallucinated spans in answers that models wrote on their own, in 14 languages."""
