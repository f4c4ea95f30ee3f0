"""The second model: hallucination detectors, their training and their calibration. (Empty for now.)"""
