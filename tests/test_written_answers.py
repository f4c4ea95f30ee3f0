"""Answers as today's models write them, as a person reads them: under labels, in objects, with caveats, with reasoning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.abstention import Field, fields, is_abstention, labelled_verdict
from custom_metrics.reading.response import final_answer
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, robust_label
from lm_eval_tasks.nomiracl.dataset import load
from tests.growth import exponent
from tests.miniature import MINIATURE

LABELLED = [
    ("Answer: No", "en", NO_ANSWER),
    ("**Final answer:** No", "en", NO_ANSWER),
    ("Respuesta: No", "es", NO_ANSWER),
    ("答案：否", "zh", NO_ANSWER),
    ("Jibu: Hapana", "sw", NO_ANSWER),
    ("उत्तर: नहीं", "hi", NO_ANSWER),
    ("<answer>no</answer>", "en", NO_ANSWER),
    ("Let me see.\n<answer>no</answer>", "en", NO_ANSWER),
    ('{"answerable": false}', "en", NO_ANSWER),
    ('{"verdict": "no", "confidence": 0.92}', "en", NO_ANSWER),
    ('{"beantwortbar": false}', "de", NO_ANSWER),
    ('{"unanswerable": true}', "en", NO_ANSWER),
    ('{"unanswerable": false}', "en", ANSWER),
    ('{"answer": null}', "en", NO_ANSWER),
    ('{"answer": "no", "why', "en", NO_ANSWER),  # cut
    ('{"answerable": true, "supporting_context": 4}', "en", ANSWER),
    ("<answerable>false</answerable><why>x</why>", "en", NO_ANSWER),
    ("\\boxed{No}", "en", NO_ANSWER),
    ("The answer is: $\\boxed{\\text{I don't know}}$", "en", NO_ANSWER),
    ("Result -> NO", "en", NO_ANSWER),
    ("Answer present: ❌", "en", NO_ANSWER),
    ("Answer present: ✅", "en", ANSWER),
    ("### Verdict\n\nAbsent.", "en", NO_ANSWER),
    ("False", "en", NO_ANSWER),
    ("True", "en", ANSWER),
    ("Falsch", "de", NO_ANSWER),
    ("Verdict: Yes", "en", ANSWER),
    ("Relevant contexts: none", "en", NO_ANSWER),
    ("1. No\n2. No", "en", NO_ANSWER),
    ("1. No\n2. Yes\n3. No", "en", ANSWER),
    ("[1] No\n[2] No", "en", NO_ANSWER),
    ("Context 1: No, no se menciona.\nContext 2: Sí, se menciona.", "es", ANSWER),
    ("I don&#39;t know", "en", NO_ANSWER),
    ("I do n't know", "en", NO_ANSWER),
    # the same forms around what is no verdict
    ("Name: Nobel", "en", ANSWER),
    ("Answer: Nobody knows that film better than Kore-eda.", "en", ANSWER),
    ("Answer: No, Lisbon is not the capital of Spain.", "en", ANSWER),
    ("The band is called: No Doubt", "en", ANSWER),
    ('{"answer": "Paris"}', "en", ANSWER),
]
TOPICS = [
    ("The contexts are irrelevant to the question.", "en"),
    ("All ten contexts are about other towers.", "en"),
    ("Die Kontexte behandeln andere Themen.", "de"),
    ("none of these seem to help", "en"),
    ("the completion date never comes up", "en"),
    ("这十段文字讲的是别的电影。", "zh"),
    ("いずれも別の城についての文章です。", "ja"),
    ("Gbogbo àwọn àyọkà náà ń sọ nípa ìlú mìíràn.", "yo"),
    ("From the contexts I can only tell that construction began in 1887.", "en"),
    ("The provided contexts focus on other towers.", "en"),
    ("Solo se dice que nació en Rosario; de su muerte no se habla.", "es"),
    ("Từ ngữ cảnh chỉ biết rằng việc xây dựng bắt đầu năm 1911.", "vi"),
]
CAVEATS = [
    ("The passages do not mention the date directly; however, passage 2 says it was finished in March 1889.", "en"),
    ("Contexts 1 to 9 do not mention it. Only context 10 does: 1889.", "en"),
    ("The tower was completed in 1889 (context 4). The exact day is not mentioned.", "en"),
    ("While most of the contexts are about other rivers, context 6 states that it is 2,140 km long.", "en"),
    ("None of the members were injured in the crash, context 5 reports.", "en"),
    ("There is no information on his youth. He died in Vienna in 1827, according to context 2.", "en"),
    ("Tarehe kamili haijatajwa, lakini muktadha wa 3 unasema ilikuwa mwaka 1961.", "sw"),
    ("A pontos nap nincs megadva, de a 4. szöveg szerint 1896-ban adták át.", "hu"),
    ("সঠিক তারিখ উল্লেখ নেই, তবে ৪ নম্বর প্রসঙ্গে বলা আছে এটি ১৯৭১ সালে ঘটে।", "bn"),
    ("ไม่ได้ระบุวันที่แน่นอน แต่บริบทที่ 3 บอกว่าเกิดขึ้นในปี พ.ศ. 2475", "th"),
]
REASONING = [
    (
        'To say "Yes, answer is present", a context must give the date. None does. Therefore my answer is "I don\'t know".',
        NO_ANSWER,
    ),
    (
        "First I thought it was not there, I don't know. But wait, context 3 says 1889! Yes, answer is present.",
        ANSWER,
    ),
    ("Yes, answer is present... wait, no. Context 5 is about the other one. I don't know.", NO_ANSWER),
    ('We should say "I don\'t know" if no context answers. Context 9 does. So: Yes, answer is present.', ANSWER),
    ("I don't know - hold on, the last passage does give the distance. Yes, answer is present.", ANSWER),
    ("<scratchpad>1: no. 2: Yes, answer is present?</scratchpad>\nI don't know", NO_ANSWER),
    ("<analysis>Neither states the year.</analysis>\nYes, answer is present", ANSWER),
    ("analysisNone has the year, I don't know.assistantfinalYes, answer is present", ANSWER),
    ("analysisWe need to see whether any context", INVALID),
    ("<scratchpad>Context 1: no", INVALID),
    # the instruction again is no verdict
    ('If no context answers it, say "I don\'t know", otherwise say "Yes, answer is present".', INVALID),
    ('Please answer "Yes, answer is present" if the answer is present, and "I don\'t', INVALID),
    # without a turn, the first of both holds, as in the released answers
    ("Yes, answer is present\n\nI don't know", ANSWER),
    ("Possible answers:\n1. Yes, answer is present\n2. I don't know", ANSWER),
]

CONCLUDED = [
    ("With these passages: no.", "en", NO_ANSWER),
    ("Werdykt brzmiałby więc: nie.", "pl", NO_ANSWER),
]
ONE_OF_SEVERAL = [
    ("[2] 1932; the rest is unrelated", "en", ANSWER),
    ("Only [7] is of use here.", "en", ANSWER),
    ("[2] 1932; der Rest ist irrelevant", "de", ANSWER),
    ("文章1から6は橋についてです。文章7に1932年とあります。", "ja", ANSWER),
    ("[2] 1932年；残りは無関係です", "ja", ANSWER),
    ("[2] 1932; остальное не относится к делу", "ru", ANSWER),
    ("段落1到6讲的是桥梁。段落7给出了年份：1932年。", "zh", ANSWER),
    ("[2] 1932；其余无关", "zh", ANSWER),
    ("المقاطع من 1 إلى 6 تتحدث عن الجسور. المقطع 7 يذكر السنة، 1932.", "ar", ANSWER),
    ("অনুচ্ছেদ ১ থেকে ৬ সেতু নিয়ে। অনুচ্ছেদ ৭ সালটি দেয়, ১৯৩২।", "bn", ANSWER),
    ("Úryvky 1 až 6 jsou o mostech. Úryvek 7 uvádí rok 1932.", "cs", ANSWER),
    ("متن‌های ۱ تا ۶ درباره پل‌ها هستند. متن ۷ سال را می‌گوید، ۱۹۳۲.", "fa", ANSWER),
    ("अंश 1 से 6 पुलों के बारे में हैं। अंश 7 वर्ष बताता है, 1932।", "hi", ANSWER),
    ("Az 1–6. szöveg hidakról szól. A 7. szöveg megadja az évet: 1932.", "hu", ANSWER),
    ("Bagian 1 sampai 6 membahas jembatan. Bagian 7 menyebutkan tahunnya, 1932.", "id", ANSWER),
    ("지문 1부터 6까지는 다리에 관한 것입니다. 지문 7은 1932년이라고 합니다.", "ko", ANSWER),
    ("Loci 1 ad 6 de pontibus agunt. Locus 7 annum dat, 1932.", "la", ANSWER),
    ("Ištraukos 1–6 yra apie tiltus. 7 ištrauka nurodo metus – 1932.", "lt", ANSWER),
    ("Petikan 1 hingga 6 adalah tentang jambatan. Petikan 7 memberikan tahunnya, 1932.", "ms", ANSWER),
    ("Pasajele 1-6 sunt despre poduri. Pasajul 7 dă anul, 1932.", "ro", ANSWER),
    ("متن 1 کان 6 پلن بابت آهن. متن 7 سال ٻڌائي ٿو، 1932.", "sd", ANSWER),
    ("Vifungu 1 hadi 6 vinahusu madaraja. Kifungu cha 7 kinataja mwaka, 1932.", "sw", ANSWER),
    ("భాగాలు 1 నుండి 6 వంతెనల గురించి. భాగం 7 సంవత్సరాన్ని ఇస్తుంది, 1932.", "te", ANSWER),
    ("บริบทที่ 1 ถึง 6 เกี่ยวกับสะพาน บริบทที่ 7 ระบุปี 1932", "th", ANSWER),
    ("1-6 numaralı metinler köprüler hakkında. 7 numaralı metin yılı veriyor: 1932.", "tr", ANSWER),
    ("اقتباس 1 سے 6 پلوں کے بارے میں ہیں۔ اقتباس 7 سال بتاتا ہے، 1932۔", "ur", ANSWER),
    ("Các đoạn 1 đến 6 nói về cầu. Đoạn 7 cho biết năm, 1932.", "vi", ANSWER),
    ("Àyọkà 1 sí 6 ń sọ nípa afárá. Àyọkà 7 sọ ọdún náà, 1932.", "yo", ANSWER),
    ("段落1至6講嘅係橋。段落7畀咗年份：1932年。", "yue", ANSWER),
    ("None of the passages, not even passage 7, gives the year.", "en", NO_ANSWER),
    ("Passage 7 comes close but does not say when.", "en", NO_ANSWER),
    ("Only passage 7 comes close, but it does not give the year.", "en", NO_ANSWER),
    ("Passages 1 to 6 are about bridges. Passage 7 mentions the tower but not the year.", "en", NO_ANSWER),
    ("Passages 1 to 6 are about bridges. Passage 7 is about a river.", "en", NO_ANSWER),
    ("لا يذكر أي من المقاطع، ولا حتى المقطع 7، السنة.", "ar", NO_ANSWER),
    ("Cap dels passatges, ni tan sols el passatge 7, dona l'any.", "ca", NO_ANSWER),
    ("Žádný z úryvků, ani úryvek 7, neuvádí rok.", "cs", NO_ANSWER),
    ("Keine der Passagen, nicht einmal Passage 7, nennt das Jahr.", "de", NO_ANSWER),
    ("Neniu el la tekstoj, eĉ ne teksto 7, donas la jaron.", "eo", NO_ANSWER),
    ("Ninguno de los pasajes, ni siquiera el pasaje 7, da el año.", "es", NO_ANSWER),
    ("Testuetako batek ere, ezta 7. testuak ere, ez du urtea ematen.", "eu", NO_ANSWER),
    ("هیچ‌یک از متن‌ها، حتی متن ۷، سال را ذکر نمی‌کند.", "fa", NO_ANSWER),
    ("Mikään katkelmista, ei edes katkelma 7, ei kerro vuotta.", "fi", NO_ANSWER),
    ("Aucun des passages, pas même le passage 7, ne donne l'année.", "fr", NO_ANSWER),
    ("אף אחד מהקטעים, אפילו לא קטע 7, אינו מציין את השנה.", "he", NO_ANSWER),
    ("कोई भी अंश, यहाँ तक कि अंश 7 भी, वर्ष नहीं बताता।", "hi", NO_ANSWER),
    ("Egyik szöveg sem, még a 7. szöveg sem adja meg az évet.", "hu", NO_ANSWER),
    ("Tidak satu pun teks, bahkan teks 7, menyebutkan tahunnya.", "id", NO_ANSWER),
    ("Nessuno dei brani, nemmeno il brano 7, indica l'anno.", "it", NO_ANSWER),
    ("どの文章も、文章7でさえも、年を述べていません。", "ja", NO_ANSWER),
    ("지문 7을 포함하여 어떤 지문도 연도를 언급하지 않습니다.", "ko", NO_ANSWER),
    ("Nullus textus, ne textus 7 quidem, annum dat.", "la", NO_ANSWER),
    ("Nė viena ištrauka, net ir 7 ištrauka, nenurodo metų.", "lt", NO_ANSWER),
    ("Tiada satu pun petikan, malah petikan 7, memberikan tahunnya.", "ms", NO_ANSWER),
    ("Żaden z fragmentów, nawet fragment 7, nie podaje roku.", "pl", NO_ANSWER),
    ("Nenhuma das passagens, nem mesmo a passagem 7, dá o ano.", "pt", NO_ANSWER),
    ("Niciunul dintre pasaje, nici măcar pasajul 7, nu dă anul.", "ro", NO_ANSWER),
    ("Ни один из отрывков, даже отрывок 7, не называет год.", "ru", NO_ANSWER),
    ("ڪو به متن، ايتري قدر جو متن 7 به، سال نٿو ٻڌائي.", "sd", NO_ANSWER),
    ("Nijedan od odlomaka, čak ni odlomak 7, ne navodi godinu.", "sr", NO_ANSWER),
    ("Hakuna kifungu chochote, hata kifungu cha 7, kinachotaja mwaka.", "sw", NO_ANSWER),
    ("ఏ భాగం కూడా, భాగం 7 కూడా, సంవత్సరాన్ని చెప్పలేదు.", "te", NO_ANSWER),
    ("Metinlerin hiçbiri, metin 7 bile, yılı vermiyor.", "tr", NO_ANSWER),
    ("کوئی بھی اقتباس، حتیٰ کہ اقتباس 7 بھی، سال نہیں بتاتا۔", "ur", NO_ANSWER),
    ("Không đoạn nào, kể cả đoạn 7, cho biết năm.", "vi", NO_ANSWER),
    ("Kò sí àyọkà kankan, àní àyọkà 7 pàápàá, tó sọ ọdún náà.", "yo", NO_ANSWER),
    ("冇一段講到年份，連段落7都冇。", "yue", NO_ANSWER),
    ("没有一个段落给出年份，连段落7也没有。", "zh", NO_ANSWER),
]
DENIED = [
    ("Not 'I don't know': passage 7 gives the year.", "en", ANSWER),
    ("I can say the answer is present because passage 3 gives the date.", "en", ANSWER),
    ('ليست "لا أعرف": المقطع 7 يذكر السنة.', "ar", ANSWER),
    ('"আমি জানি না" নয়: অনুচ্ছেদ ৭ সালটি দেয়।', "bn", ANSWER),
    ("No és «No ho sé»: el passatge 7 dona l'any.", "ca", ANSWER),
    ("Ne „Nevím“: úryvek 7 uvádí rok.", "cs", ANSWER),
    ("Nicht „Ich weiß es nicht“: Passage 7 nennt das Jahr.", "de", ANSWER),
    ("No es «No lo sé»: el pasaje 7 da el año.", "es", ANSWER),
    ("نه «نمی‌دانم»: متن ۷ سال را ذکر می‌کند.", "fa", ANSWER),
    ('Ei "En tiedä": katkelma 7 kertoo vuoden.', "fi", ANSWER),
    ("Pas « Je ne sais pas » : le passage 7 donne l'année.", "fr", ANSWER),
    ('לא "אני לא יודע": קטע 7 מציין את השנה.', "he", ANSWER),
    ('"मुझे नहीं पता" नहीं: अंश 7 वर्ष बताता है।', "hi", ANSWER),
    ("Nem „Nem tudom”: a 7. szöveg megadja az évet.", "hu", ANSWER),
    ('Bukan "Saya tidak tahu": teks 7 menyebutkan tahunnya.', "id", ANSWER),
    ("Non «Non lo so»: il brano 7 indica l'anno.", "it", ANSWER),
    ("「わかりません」ではありません。文章7に年が書かれています。", "ja", ANSWER),
    ('"모르겠습니다"가 아닙니다. 지문 7이 연도를 알려 줍니다.', "ko", ANSWER),
    ('Non "Nescio": textus 7 annum dat.', "la", ANSWER),
    ("Ne „Nežinau“: 7 ištrauka nurodo metus.", "lt", ANSWER),
    ('Bukan "Saya tidak tahu": petikan 7 memberikan tahunnya.', "ms", ANSWER),
    ("Nie „Nie wiem”: fragment 7 podaje rok.", "pl", ANSWER),
    ('Não é "Não sei": a passagem 7 dá o ano.', "pt", ANSWER),
    ("Nu „Nu știu”: pasajul 7 dă anul.", "ro", ANSWER),
    ("Не «Я не знаю»: отрывок 7 называет год.", "ru", ANSWER),
    ('"مون کي خبر ناهي" نه: متن 7 سال ٻڌائي ٿو.', "sd", ANSWER),
    ("Не „Не знам“: одломак 7 наводи годину.", "sr", ANSWER),
    ('Si "Sijui": kifungu cha 7 kinataja mwaka.', "sw", ANSWER),
    ('"నాకు తెలియదు" కాదు: భాగం 7 సంవత్సరాన్ని ఇస్తుంది.', "te", ANSWER),
    ('ไม่ใช่ "ฉันไม่ทราบ": บริบทที่ 7 ระบุปีไว้', "th", ANSWER),
    ('"Bilmiyorum" değil: metin 7 yılı veriyor.', "tr", ANSWER),
    ('"مجھے نہیں معلوم" نہیں: اقتباس 7 سال بتاتا ہے۔', "ur", ANSWER),
    ('Không phải "Tôi không biết": đoạn 7 cho biết năm.', "vi", ANSWER),
    ('Kì í ṣe "Mi ò mọ̀": àyọkà 7 sọ ọdún náà.', "yo", ANSWER),
    ("唔係「我唔知道」：段落7畀咗年份。", "yue", ANSWER),
    ("不是“我不知道”：段落7给出了年份。", "zh", ANSWER),
]
ONLY_TOLD = [
    ("Dozvídáme se jen, kdy práce začaly.", "cs", NO_ANSWER),
    ("工事がいつ始まったかしか述べられていません。", "ja", NO_ANSWER),
]
GIVEN_WITH_A_CAVEAT = [
    ("1932年です。正確な日は不明です。", "ja", ANSWER),
    ("Она построена в 1932 году, хотя точный день не указан.", "ru", ANSWER),
    ("Это был 1932 год (отрывок 7); точная дата в тексте не названа.", "ru", ANSWER),
    ("Канберра, хотя прямо об этом не говорится.", "ru", ANSWER),
    ("它建于1932年，但没有给出具体日期。", "zh", ANSWER),
    ("لست متأكدًا أن هذا ما تريده، لكن المقطع 7 يقول 1932.", "ar", ANSWER),
    ("আমি নিশ্চিত নই আপনি এটাই চান কিনা, তবে অনুচ্ছেদ ৭ বলছে ১৯৩২।", "bn", ANSWER),
    ("No estic segur que sigui això el que voleu, però el passatge 7 diu 1932.", "ca", ANSWER),
    ("Nejsem si jistý, zda to chcete vědět, ale úryvek 7 říká 1932.", "cs", ANSWER),
    ("I am not sure this is what you want, but passage 7 says 1932.", "en", ANSWER),
    ("No estoy seguro de que sea lo que busca, pero el pasaje 7 dice 1932.", "es", ANSWER),
    ("Ez nago ziur hori nahi duzun, baina 7. testuak 1932 dio.", "eu", ANSWER),
    ("مطمئن نیستم منظورتان این باشد، اما متن ۷ می‌گوید ۱۹۳۲.", "fa", ANSWER),
    ("En ole varma, tarkoitatko tätä, mutta katkelma 7 sanoo 1932.", "fi", ANSWER),
    ("Je ne suis pas sûr que ce soit ce que vous cherchez, mais le passage 7 dit 1932.", "fr", ANSWER),
    ("אני לא בטוח שלזה התכוונת, אבל קטע 7 אומר 1932.", "he", ANSWER),
    ("मुझे यकीन नहीं है कि आप यही चाहते हैं, लेकिन अंश 7 के अनुसार 1932।", "hi", ANSWER),
    ("Nem vagyok biztos benne, hogy erre gondol, de a 7. szöveg szerint 1932.", "hu", ANSWER),
    ("Saya tidak yakin ini yang Anda maksud, tetapi teks 7 mengatakan 1932.", "id", ANSWER),
    ("Non sono sicuro che sia ciò che cerca, ma il brano 7 dice 1932.", "it", ANSWER),
    ("원하시는 것인지 확실하지 않지만, 지문 7에 따르면 1932년입니다.", "ko", ANSWER),
    ("Nesu tikras, ar to norite, bet ištrauka 7 sako 1932.", "lt", ANSWER),
    ("Saya tidak pasti ini yang anda mahukan, tetapi petikan 7 mengatakan 1932.", "ms", ANSWER),
    ("Nie jestem pewien, czy o to chodzi, ale fragment 7 mówi o 1932 roku.", "pl", ANSWER),
    ("Não tenho certeza se é isso que você quer, mas a passagem 7 diz 1932.", "pt", ANSWER),
    ("مون کي پڪ ناهي ته توهان اهو ئي چاهيو ٿا، پر متن 7 چوي ٿو 1932.", "sd", ANSWER),
    ("Нисам сигуран да ли то желите, али одломак 7 каже 1932.", "sr", ANSWER),
    ("Sina uhakika kama hili ndilo unalotaka, lakini kifungu cha 7 kinasema 1932.", "sw", ANSWER),
    ("మీరు కోరుకునేది ఇదేనో నాకు ఖచ్చితంగా తెలియదు, కానీ భాగం 7 1932 అని చెబుతుంది.", "te", ANSWER),
    ("ฉันไม่แน่ใจว่านี่คือสิ่งที่คุณต้องการหรือไม่ แต่บริบทที่ 7 บอกว่า 1932", "th", ANSWER),
    ("İstediğiniz bu mu emin değilim ama metin 7 1932 diyor.", "tr", ANSWER),
    ("مجھے یقین نہیں کہ آپ یہی چاہتے ہیں، لیکن اقتباس 7 کے مطابق 1932۔", "ur", ANSWER),
    ("Tôi không chắc đây là điều bạn muốn, nhưng đoạn 7 nói là 1932.", "vi", ANSWER),
    ("Kò dá mi lójú pé èyí ni o fẹ́, ṣùgbọ́n àyọkà 7 sọ 1932.", "yo", ANSWER),
    ("我唔肯定呢個係咪你想要嘅，但段落7話係1932年。", "yue", ANSWER),
    ("ใช่ บริบทที่ 2 ระบุปีที่สร้าง", "th", ANSWER),
    ("ใช่ คำตอบอยู่ในบริบท", "th", ANSWER),
    ("ใช่ บริบทให้ข้อมูลที่ตอบคำถามนี้ได้", "th", ANSWER),
    ("ใช่ครับ ในเนื้อหามีข้อมูลที่ต้องการ", "th", ANSWER),
    ("ใช่แล้ว พบคำตอบในเอกสาร", "th", ANSWER),
]


@pytest.mark.parametrize(
    ("text", "language", "label"), [*LABELLED, *CONCLUDED, *ONE_OF_SEVERAL, *DENIED, *ONLY_TOLD, *GIVEN_WITH_A_CAVEAT]
)
def test_a_bare_verdict_is_read_whatever_stands_around_it(text: str, language: str, label: str) -> None:
    assert robust_label(text, language) == label


@pytest.mark.parametrize(("text", "language"), TOPICS)
def test_another_topic_and_only_what_was_not_asked_abstain(text: str, language: str) -> None:
    assert robust_label(text, language) == NO_ANSWER
    assert is_abstention(text, language)


@pytest.mark.parametrize(("text", "language"), CAVEATS)
def test_an_answer_after_a_caveat_is_an_answer(text: str, language: str) -> None:
    assert robust_label(text, language) == ANSWER
    assert not is_abstention(text, language)


@pytest.mark.parametrize(("text", "label"), REASONING)
def test_the_last_verdict_holds_and_the_rule_quoted_is_none(text: str, label: str) -> None:
    assert robust_label(text, "en") == label


@pytest.mark.parametrize(
    ("text", "abstains", "alone"),
    [
        # as a part of a long answer, and where the question has one answer
        (
            "The passage gives two of the three reasons: high taxes and poor harvests. The third is not given.",
            False,
            True,
        ),
        ("The passage only covers the Belgian Revolution, so the French causes can't be listed.", True, True),
        ("The passages discuss the tower's height. They do not say who built it.", True, True),
        ("No.", False, False),  # to a question that asks for yes or no
        ('{"answer": null}', True, True),
        ("> ⚠️ **Not enough information**", True, True),
    ],
)
def test_a_part_of_a_long_answer_is_an_answer(text: str, abstains: bool, alone: bool) -> None:
    assert is_abstention(final_answer(text), "en") is abstains
    assert is_abstention(final_answer(text), "en", partial=False) is alone


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: No", [Field("Answer", "No")]),
        ("## Verdict\nNo", [Field("Verdict", "No")]),
        ("Verdict:\n- Paris\n- Rome", []),  # choices
        ("1. No\n(2) Yes", [Field("1", "No", True), Field("(2", "Yes", True)]),
        ('{"a": [], "b": "x"}', [Field("a", "null"), Field("b", "x")]),
        ("Paris is old.", []),
        ("a b c d e: no", []),  # no label of five words
    ],
)
def test_labels_are_read_by_their_form(text: str, found: list[Field]) -> None:
    assert fields(text) == found


@pytest.mark.parametrize("text", ["", "Paris", "Capital: Paris", "1. Paris\n2. Rome", "{", '{"a": 1}'])
def test_where_no_verdict_is_there_is_none(text: str) -> None:
    assert labelled_verdict(text, "en") is None
    assert labelled_verdict(f"Answer: the answer can be found\n{text}", "en") is True


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize(
    "unit",
    ["a: ", '"a": ', "<a>", "\\boxed{", "1. no\n", "\\text{", "# a\n", "&#39;", " n't", "(1) ", "not 'no idea' "],
)
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_hostile_forms_are_read_in_linear_time(unit: str) -> None:
    robust_label("Answer: no", "en")
    assert exponent(lambda text: robust_label(text, "en"), lambda size: "{" + unit * (size // len(unit)), 4_000) < 1.5


def test_a_run_of_a_bare_verdict_hallucinates_nowhere(harness: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    docs = load("en", mirror=MINIATURE)["evaluation"]
    rows = [{"query_id": doc["query_id"], "subset": doc["subset"], "response": "**Final answer:** No"} for doc in docs]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    results = harness(["nomiracl_en"], "replay", f"path={tmp_path / 'a.jsonl'}", metadata={"mirror": MINIATURE})
    found = results["results"]["nomiracl_en"]
    rates = [found[f"{rate},robust"] for rate in ("hallucination_rate", "error_rate", "invalid_rate")]
    assert rates == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        "埃菲尔铁塔建于1889年。",
        "エッフェル塔は1889年に建てられました。",
        "Эйфелева башня построена в 1889 году.",
        "그 강의 길이는 2140km입니다.",
        "เมืองหลวงของออสเตรเลียคือแคนเบอร์รา",
        "ऑस्ट्रेलिया की राजधानी कैनबरा है।",
        "La torre fue construida en 1889.",
    ],
)
def test_an_answer_in_another_language_than_the_question_answers(text: str) -> None:
    passages = ("Der Eiffelturm ist ein Turm in Paris, erbaut 1889.", "Er steht am Marsfeld.")
    assert robust_label(text, "de", "Wann wurde der Turm gebaut?", passages) == ANSWER
