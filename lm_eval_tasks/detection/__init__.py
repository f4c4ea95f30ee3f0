"""Detectors in tasks: settings, calibrations in force, labelled answers, languages of answers."""
