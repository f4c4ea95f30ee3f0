"""Files: public data by repository and revision, local copies, digests, provenance."""
