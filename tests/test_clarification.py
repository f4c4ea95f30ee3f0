"""The reader of clarifying questions: what asks the user back, in each language with a table, and what only sounds so."""

from __future__ import annotations

import pytest

from custom_metrics.abstention.clarification import KEYS, asks_clarification, tables
from custom_metrics.abstention.folding import fold
from custom_metrics.abstention.patterns import Matcher, PhraseReader
from custom_metrics.abstention.phrases import GAP, GAP_WITHOUT_SPACES, phrase_table

ASKS = {
    "en": """\
Which season of the series are you referring to?
Do you mean the film, or something else?
What might you mean?
There are many parks: Yosemite, which opens at six, and Joshua Tree. Which one?
Could you please specify which city?
Do you have a certain year in mind?
Would you mind telling me the name of the clinic?
Would you like the price in dollars or in euros?
May I ask which year this is about?
Please specify the product name.
I do not have that information. Please provide more details about the loan.
If you are asking about one player, please let me know which.
Tell me what it says on the label, and I can help.
I need you to name the county.
You will have to tell me the year.
If you tell me which permit it is, I can say more.
If you could specify the loan, I can say more.
If you give more context, I can answer.
I would need to know which fund it is.
I require more information from you.
Further clarification is needed from the user.""",
    "de": """\
Welche Staffel meinen Sie?
Meinst du den Film oder das Buch?
Auf welchen der Parks sind Sie oder du gemeint?
Ist das Buch gemeint oder etwas anderes?
Welcher genau?
Könnten Sie bitte angeben, um welche Stadt es geht?
Kannst du das Jahr nennen?
Bitte präzisieren Sie Ihre Frage.
Bitte nennen Sie mir die Stadt.
Bitte sag mir den Namen.
Lassen Sie mich wissen, welche Stadt es ist.
Wenn Sie mir den Namen nennen, kann ich helfen.""",
    "es": """\
¿A qué temporada te refieres?
¿Se refiere a la película o al libro?
¿Te refieres a Madrid?
¿Es la película o algo distinto?
¿Cuál de los parques?
¿Podrías especificar la ciudad?
Por favor, aclare la pregunta.
Por favor indique el préstamo.
Dime cuál es.
Si me dices qué ciudad es, puedo ayudarte.""",
    "fr": """\
De quelle saison s'agit-il quand vous parlez ?
De quelle saison parlez-vous ?
Parlez-vous du film ou du livre ?
Penses-tu au film ou au livre ?
Est-ce le film ou autre chose ?
Lequel ?
Pourriez-vous préciser la ville ?
Peux-tu préciser la ville ?
Veuillez préciser votre question.
S'il vous plaît, précisez la ville.
Dites-moi laquelle.
Si vous pouvez me dire la ville, je peux répondre.""",
    "zh": """\
您指的是哪一季？
您能否具体说明是哪座城市？
是电影还是其他？
哪个公园是您要去的？
请具体说明。
请告诉我是哪座城市。
请提供更多信息。""",
    "ja": """\
どのシーズンのことでしょうか？
どの都市についてのご質問ですか？
年を教えていただけますか？
映画ですか、それとも別のものですか？
どの都市か教えてください。
具体的に教えてください。
年をご指定ください。""",
    "ar": """\
أي موسم تقصد؟
هل تقصد الفيلم؟
الفيلم أم شيئا آخر؟
هل يمكنك تحديد المدينة؟
يرجى توضيح سؤالك.
أخبرني أي مدينة.
حدد لي أي سنة.""",
    "sw": """\
Unamaanisha msimu gani?
Je, unaweza kufafanua swali?
Tafadhali fafanua.
Niambie ni mji gani.""",
}

DOES_NOT = {
    "en": """\
I do not have specific information.
I cannot answer without more details about the fund.
Additional information would be needed to answer this.
Let me know if you have any other questions.
Please let me know if you need further assistance.
Do you have other questions?
How can I help you today?
Would you like me to explain that?
Feel free to ask if you want to know which.
Is there anything else you need to know?
If there are more details needed, please let me know.
Please provide current telephone numbers for all parties.
The dialog asks users for their name. Who reads it? The service does.
It does not specify whether holidays are included.
""",
    "de": """\
Ich weiß es nicht.
Haben Sie weitere Fragen?
Kann ich sonst noch etwas nennen?
Kann ich Ihnen behilflich sein, wenn Sie fragen?""",
    "es": """\
No tengo esa información.
¿Tienes otra pregunta?
¿Podrías decirme si quieres saber algo más?""",
    "fr": """\
Je ne sais pas.
Pouvez-vous me dire si vous avez d'autres questions ?
Voulez-vous dire autre chose que cela ?
Pouvez-vous dire si vous avez besoin d'aide ?""",
    "zh": "我不知道。\n您还有其他问题吗？\n您想知道更多的话，随时告诉我？",
    "ja": "分かりません。\n他にご質問はありますか？\nお手伝いできることを教えていただけますか？",
    "ar": "لا أعرف.\nهل تقصد أي أسئلة أخرى؟",
    "sw": "Sijui.\nUnazungumzia maswali mengine?",
}


def lines(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(language, line) for language, text in texts.items() for line in text.splitlines()]


@pytest.mark.parametrize(("language", "answer"), lines(ASKS))
def test_an_answer_that_asks_back(language: str, answer: str) -> None:
    assert asks_clarification(answer, language)


@pytest.mark.parametrize(("language", "answer"), lines(DOES_NOT))
def test_an_answer_that_does_not(language: str, answer: str) -> None:
    assert not asks_clarification(answer, language)


@pytest.mark.parametrize("answer", [None, "", " \n", 3])
def test_what_is_no_text_asks_nothing(answer: object) -> None:
    assert not asks_clarification(answer, "en")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", [None, "yo", "xx", "de-AT"])
def test_english_counts_in_every_language(language: str | None) -> None:
    assert asks_clarification("Which one are you referring to?", language)


@pytest.mark.parametrize("language", tables())
def test_every_phrase_has_an_example(language: str) -> None:
    table, spaces = tables()[language], phrase_table(language).get("spaces", True)
    reader = PhraseReader(table.get("parts", {}), fold, spaces, GAP if spaces else GAP_WITHOUT_SPACES)
    examples = fold(f"{ASKS[language]}\n{DOES_NOT[language]}").splitlines()
    unused = [
        written
        for key in KEYS
        for written in table[key]
        if not any(map(Matcher(reader.patterns(key, written)).search, examples))
    ]
    assert unused == []
