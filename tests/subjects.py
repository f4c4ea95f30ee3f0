"""The table ``lm_eval_tasks/mushroom/subjects.tsv``: Wikidata items of pages that Mu-SHROOM asks about, and their titles.

``python -m tests.subjects MIRROR`` writes it from the archives of pages: an article links to its item, and to its versions
in other languages.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from lm_eval_tasks.data.tables import plain_files
from lm_eval_tasks.mushroom import references as pages
from lm_eval_tasks.mushroom.dataset import LANGUAGES, REPOSITORY, title_of
from lm_eval_tasks.mushroom.references import decoded, read_page
from tests.miniature import MINIATURE_FOLDER

TABLE = Path(pages.__file__).with_name("subjects.tsv")
_LINK = re.compile(rb'<a href="(https://(\w+)\.wikipedia\.org/wiki/[^"]+)"[^>]* class="interlanguage-link-target"')


def table(mirror: str) -> str:
    """The table's content, by the archives of a mirror and of the sample."""
    by_item: dict[str, dict[str, str]] = defaultdict(dict)
    folders = [Path(place, "github", REPOSITORY) for place in (mirror, MINIATURE_FOLDER)]
    archives = [(code, folder / entry.pages_file) for folder in folders for code, entry in LANGUAGES.items()]
    for code, archive in archives:
        for _, content in plain_files(archive, pages.LARGEST_PAGE, Counter(), "") if archive.is_file() else ():
            page = read_page(content)
            links = [(language.decode(), decoded(address.decode())) for address, language in _LINK.findall(content)]
            for language, address in ((code, page.address), *links) if page.item else ():
                by_item[page.item].setdefault(language, title_of(address))
    rows = [(item, *(titles.get(code, "") for code in LANGUAGES)) for item, titles in by_item.items()]
    return "".join(
        "\t".join(row) + "\n" for row in [("item", *LANGUAGES), *sorted(rows, key=lambda row: int(row[0][1:]))]
    )


if __name__ == "__main__":
    TABLE.write_text(table(sys.argv[1]), "utf-8")
