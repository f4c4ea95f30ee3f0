"""MEMERAG: answers from passages whose sentences people judged, in 5 languages (Cruz Blandón et al. 2025)."""

LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "hi": "Hindi"}  # code to English name
