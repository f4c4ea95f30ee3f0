"""What the harness loads by name: filters, aggregations and metrics."""
