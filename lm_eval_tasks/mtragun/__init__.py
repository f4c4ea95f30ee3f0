"""MTRAG-UN: conversations whose last turn may have no answer, part of one, or several meanings (Rosenthal et al. 2026)."""

DOMAINS = {"clapnq": "clapnq", "cloud": "ibmcloud", "fiqa": "fiqa", "govt": "govt"}
"""The domain in a task's name, to the ``Collection`` of the file. The paper's other two, Banking and Telco, are not
public."""
