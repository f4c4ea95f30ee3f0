"""The second model: detectors that say which spans of an answer are hallucinated, and what is known of their errors."""

from detector_plugin.detector import Detector, UnusableDetector
from detector_plugin.loading import load_detector

__all__ = ["Detector", "UnusableDetector", "load_detector"]
