"""Detectors from Hugging Face: any classifier of tokens or of texts, and any PEFT adapter of one.

The package has the library's name; imports are absolute, so ``import transformers`` still gets the library.
"""

from detector_plugin.transformers.classifier import TransformersDetector, check_model

__all__ = ["TransformersDetector", "check_model"]
