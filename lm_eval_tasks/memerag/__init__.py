"""MEMERAG: answers from passages whose sentences people judged, in 5 languages (Cruz Blandón et al. 2025)."""
