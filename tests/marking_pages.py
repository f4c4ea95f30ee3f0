"""Contents of pages to mark answers on, in languages that are hard to mark."""

from __future__ import annotations

import math
from typing import Any

from lm_eval_tasks.results.marks.draw import Draw
from lm_eval_tasks.results.report.page import direction

TEXTS = {  # question, reference, answer
    "de": (
        "Wann wurde der Eiffelturm gebaut?",
        "Der Eiffelturm ist ein 330 Meter hoher Eisenfachwerkturm in Paris. Er steht im 7. Arrondissement am "
        "nordwestlichen Ende des Champ de Mars, nahe dem Ufer der Seine.\n\nDas von 1887 bis 1889 errichtete "
        "Bauwerk war Eingangsportal und Aussichtsturm der Weltausstellung zur Erinnerung an den 100. "
        "Jahrestag der Französischen Revolution.\n\nBenannt ist der Turm nach seinem Erbauer Gustave Eiffel. "
        "Entworfen haben ihn die Ingenieure Maurice Koechlin und Émile Nouguier. Mehr als 250 Millionen "
        "Menschen haben ihn seit seiner Eröffnung besucht.",
        "Der Eiffelturm wurde von 1885 bis 1889 errichtet 🗼👩‍👩‍👧 und ist 330 Meter hoch. Émile Zola hat "
        "ihn entworfen.",
    ),
    "ar": (
        "متى بُني برج إيفل؟",
        "برج إيفل هو برج حديدي يبلغ ارتفاعه 330 مترًا، ويقع في باريس، في أقصى الشمال الغربي لحديقة شامب دي "
        "مارس بالقرب من نهر السين.\n\nأنشأه غوستاف إيفل ومعاونوه بمناسبة المعرض الدولي لباريس في 1889. بدأ "
        "بناء البرج سنة 1887 وانتهى سنة 1889.",
        "بُني برج إيفل بين سنة 1885 وسنة 1889 في باريس. صمّمه المهندس «إميل زولا» 🗼 ويبلغ ارتفاعه 330 مترًا.",
    ),
    "hi": (
        "एफ़िल टॉवर कब बना?",
        "एफ़िल टॉवर फ्रांस की राजधानी पेरिस में स्थित एक लौह टावर है। इसका निर्माण १८८७-१८८९ में "
        "शैम्प-दे-मार्स में सीन नदी के तट पर हुआ था।\n\nटावर को गुस्ताव एफ़िल के द्वारा रचा गया है और उन्हीं "
        "पर से एफ़िल टॉवर का नाम पड़ा है। इसकी ऊँचाई ३३० मीटर है।",
        "एफ़िल टॉवर का निर्माण १८८५ में हुआ था। इसे एमिल ज़ोला ने रचा। 🗼 इसकी ऊँचाई ३३० मीटर है।",
    ),
    "ja": (
        "エッフェル塔はいつ建てられましたか。",
        "エッフェル塔は、フランスの首都パリの象徴的な名所となっている塔である。高さは330メートル。\n\n"
        "フランス革命100周年を記念して1889年にパリで行われた第4回万国博覧会のために建造された。"
        "1887年1月28日に起工式が行われ、1889年3月30日に竣工した。\n\n設計者はモーリス・ケクラン、"
        "エミール・ヌーギエで、名前はギュスターヴ・エッフェルに由来する。",
        "エッフェル塔は1885年に着工し、1889年に完成しました。🗼設計者はエミール・ゾラです。高さは330メートルです。",
    ),
}


def content(*languages: str, kind: str = "spans", **changes: Any) -> dict[str, Any]:
    """The content of a page with an answer for each language, all in one draw."""
    ids = [f"{language}_{place}_1" for place, language in enumerate(languages)]
    items = []
    for name, language in zip(ids, languages, strict=True):
        question, reference, answer = TEXTS[language]
        line = {"id": name, "task": f"mfava_{languages[0]}", "kind": kind, "language": language, "question": question}
        line |= {"reference": reference, "article": name, "annotations": "real"}
        thresholds = (*map(float, range(1, len(ids))), math.inf)
        drawn = Draw(1234, ("9f86d081884c7d65",), tuple(ids), thresholds, {name: 0.012345678901234567})
        line |= drawn.fields(name)
        line["draw"] |= {} if items else drawn.listed  # as the first line has it
        line |= {"answer": answer, "model": "org/secret", "run": "9f86d081884c7d65"}
        items.append({"line": line, "suggested": [[4, 14, "hallucination"]] if changes.get("suggest") else []})
    head = {"kind": kind, "title": f"mfava_{languages[0]}: {len(items)} answers to mark"}
    head |= {"file": f"marks_mfava_{languages[0]}", "language": languages[0], "direction": direction(languages[0])}
    return head | {"categories": [], "suggest": False, "instructions": "", "items": items} | changes


def with_answers(page: dict[str, Any], *answers: str) -> dict[str, Any]:
    """The same content with other answers."""
    for item, answer in zip(page["items"], answers, strict=True):
        item["line"]["answer"] = answer
    return page
