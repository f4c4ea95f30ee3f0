"""Training of detectors: any base model of transformers, by recipes that are tables."""

from detector_plugin.transformers.training.run import Trained, train_detector

__all__ = ["Trained", "train_detector"]
