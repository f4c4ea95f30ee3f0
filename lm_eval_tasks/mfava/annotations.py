"""mFAVA's annotations: an answer with ``<category>...</category>`` around what is wrong in it, as text and spans.

The parser is that of all tagged text (:mod:`custom_metrics.reading.tagged_text`), which models write as well.
"""

from custom_metrics.reading.tagged_text import parse as parse
