"""What of an output is its answer, and what answers mean as models write them: under labels, in objects, with caveats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.abstention import is_abstention, labelled_verdict
from custom_metrics.reading.response import final_answer, with_opening
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, robust_label

CASES = [
    ("plain", "Paris.", "Paris."),
    ("outer white space stays where nothing was taken", "  Paris \n", "  Paris \n"),
    ("none", None, ""),
    ("no text", 7, ""),
    ("thinking", "<think>Hm.</think>\n\nParis.", "Paris."),
    ("thinking whose opening stood in the prompt", "Hm.</think>Paris.", "Paris."),
    ("thinking that was cut", "<think>Hm, Paris or Ly", ""),
    ("thinking twice", "<think>a</think>b<think>c</think>Paris", "Paris"),
    ("thinking under other names", "<Reasoning>Hm.</reasoning>Paris", "Paris"),
    ("kimi", "◁think▷Hm.◁/think▷Paris", "Paris"),
    ("magistral", "[THINK]Hm.[/THINK]Paris", "Paris"),
    ("harmony", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Paris", "Paris"),
    ("harmony, cut before the answer", "<|channel|>analysis<|message|>Hm, Par", ""),
    ("chatml", "Paris.<|im_end|>", "Paris."),
    ("chatml, a turn of its own making", "Paris.<|im_end|>\n<|im_start|>user\nAnd Rome?", "Paris."),
    ("llama 3", "<|start_header_id|>assistant<|end_header_id|>\n\nParis.<|eot_id|>", "Paris."),
    ("llama 2", "Paris. [INST] And Rome? [/INST]", "Paris."),
    ("gemma", "Paris.<end_of_turn>\n<start_of_turn>user\nRome?", "Paris."),
    ("end of text and more", "Paris.<|endoftext|>Human: next", "Paris."),
    ("base model goes on with a user's line", "Paris.\n\nUser: And Rome?", "Paris."),
    ("base model repeats the prompt's form", "Paris.\n\nQUESTION:\nWho?", "Paris."),
    ("a role in front", "assistant\nParis.", "Paris."),
    ("a list with a user in it is no turn", "Roles:\nUser: may read", "Roles:\nUser: may read"),
    ("a line that begins like a role", "Model: Ford T", "Model: Ford T"),
    ("a repeated instruction", "<s>[INST] Capital? [/INST] Paris</s>", "Paris"),
    ("an instruction, its answer, and turns of its own", "[INST] a [/INST] Paris [INST] b [/INST] Rome", "Paris"),
    ("an instruction that was cut", "[INST] And Rome", ""),
    ("a bracket of its own before the token", "Paris [1] [/INST]", "Paris [1]"),
    ("tags that are the answer", "The HTML tag is <s>x</s>.", "The HTML tag is <s>x</s>."),
    ("a role and nothing else", "assistant", ""),
    ("tokens at both ends", "[/INST]<eos> Berlin <eos> </s>", "Berlin"),
    ("a token alone", "<eos>", ""),
    ("two final channels", "<|channel|>final<|message|>a<|channel|>final<|message|>b", "b"),
    ("padding", "Paris<pad><pad> <eos>", "Paris"),
    ("colours of a terminal", "\x1b[31mI don't know\x1b[0m", "I don't know"),
    ("the eight-bit form", "\x9b1;31mParis\x9bm", "Paris"),
    ("the title of a window", "\x1b]0;model\x07Paris", "Paris"),
    ("a link", "\x1b]8;;https://example.org\x1b\\Paris\x1b]8;;\x1b\\", "Paris"),
    ("an escape alone", "Par\x1bis\x1b", "Paris"),
    ("colours around reasoning", "\x1b[2m<think>hm</think>\x1b[0m Paris", "Paris"),
    ("JSON", '{"answer": "I don\'t know"}', "I don't know"),
    ("JSON in a fence", '```json\n{"answer": "Paris"}\n```', "Paris"),
    ("JSON behind reasoning", '<think>{"answer": "Rome"}</think>{"answer": "Paris"}', "Paris"),
    ("JSON with a list of one", '{"answer": ["Paris"]}', "Paris"),
    ("JSON whose answer is a list", '{"answer": ["Paris", "Rome"]}', '{"answer": ["Paris", "Rome"]}'),
    ("JSON without an answer", '{"rating": 3}', '{"rating": 3}'),
    ("JSON that is cut", '{"answer": "Par', '{"answer": "Par'),
    ("JSON with text behind it", '{"answer": "Paris"} I hope this helps', '{"answer": "Paris"} I hope this helps'),
    ("JSON with a number of 5,000 digits", '{"answer": ' + "1" * 5000 + "}", '{"answer": ' + "1" * 5000 + "}"),
    ("JSON of many brackets", '{"answer": ' + "[" * 9000, '{"answer": ' + "[" * 9000),
    ("a fence around code", "```python\nprint(1)\n```", "```python\nprint(1)\n```"),
    ("html and comparison are no debris", "if a < b and <b>c</b>", "if a < b and <b>c</b>"),
]

YES = "Yes, answer is present"
REASONING = [
    ("gemma 4", f"<|channel>thought\nI don't know.\n<channel|>{YES}<turn|>", YES),
    ("gemma 4, cut", "<|channel>thought\nPassage 1 says", ""),
    (
        "harmony, JSON",
        "<|channel|>analysis<|message|>No<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"
        f'{{"answer": "{YES}"}}<|return|>',
        YES,
    ),
    ("harmony, a call and no answer", '<|channel|>commentary to=functions.x <|message|>{"a": 1}<|call|>', ""),
    ("harmony, tokens removed", f"analysisPassage 2 has it.assistantfinal\n\n{YES}", YES),
    ("harmony, tokens removed, JSON", f'analysisHm.assistantfinaljson{{"answer": "{YES}"}}', YES),
    ("harmony, tokens removed, cut", "analysiswe need to decide. Passage 2", ""),
    ("harmony, tokens as blanks", f"analysis We check. assistant final {YES}", YES),
    ("solar", f"<|think|>I don't know.<|end|><|begin|>assistant<|content|>{YES}<|end|>", YES),
    ("solar, cut", "<|think|>I don't know yet", ""),
    ("apertus", f"<|inner_prefix|>I don't know.<|inner_suffix|>{YES}<|assistant_end|>", YES),
    ("command a", f"<|START_THINKING|>No<|END_THINKING|><|START_RESPONSE|>{YES}<|END_RESPONSE|>", YES),
    ("openthinker", f"<|begin_of_thought|>No<|end_of_thought|><|begin_of_solution|>{YES}<|end_of_solution|>", YES),
    ("seed-oss", f"<seed:think><seed:cot_budget_reflect>0</seed:cot_budget_reflect>No</seed:think>{YES}", YES),
    ("s1", f"<|im_start|>think\nNo<|im_start|>answer\n{YES}", YES),
    ("granite", f"Here is my thought process:\nI don't know.\n\nHere is my response:\n{YES}", YES),
    ("granite, cut", "Here is my thought process:\nI don't know.", ""),
    ("apriel", f"Here are my reasoning steps:\nNo.\n[BEGIN FINAL RESPONSE]\n{YES}\n[END FINAL RESPONSE]\n<|end|>", YES),
    ("hunyuan", f"<think>\nNo\n</think>\n<answer>\n{YES}\n</answer>", YES),
    ("claude", f"<antml_thinking>No</antml_thinking>{YES}", YES),
    ("with attributes", f'<think duration="3">No</think>{YES}', YES),
    ("escaped", f"&lt;think&gt;No&lt;/think&gt;{YES}", YES),
    ("open webui", f'<details type="reasoning" done="true">\n<summary>Thought</summary>\n> No\n</details>\n{YES}', YES),
    ("dify", f'<details style="color:gray" open> <summary> Thinking... </summary>\nNo\n</details>{YES}', YES),
    ("librechat", f":::thinking\nNo\n:::\n\n{YES}", YES),
    ("ollama", f"Thinking...\nNo\n...done thinking.\n\n{YES}", YES),
    ("poe", f"*Thinking...*\n\n> No\n> \n> Hm\n\n{YES}", YES),
    ("aloud, cut", "Okay, so the user asks when. Let me go through the contexts. Context 1 is no help. It says", ""),
    ("aloud in Chinese, cut", "好的，用户问灯塔是什么时候建的。第一段讲的是渡轮，第二段", ""),
]
ORDINARY = (
    "Okay, so the user asks when it was built. It was built in 1850.",
    f"Okay, let me check.\n\n{YES}",
    "Analysis of the passages shows that it was built in 1850",
    "analysis of the text gives 1850",
    "The question asks when it was built. Passage 2 says",
    "<details><summary>More</summary>1850</details>",
    "The manual has <details> and :::thinking in it",
    "Write <reason for leaving> in the field",
    "Here is my response: 1850",
    "First, the tower was built in 1850",
)

READ = [*CASES, *REASONING, *((text, text, text) for text in ORDINARY)]


@pytest.mark.parametrize(("response", "answer"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_the_answer_is_what_remains(response: object, answer: str) -> None:
    assert final_answer(response) == answer  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "response", "answer"),
    [
        ("Who?<|im_start|>assistant\n<think>\n", "Passage 1 is about ferries.", ""),
        ("Who?<|im_start|>assistant\n<think>\n", f"Hm.</think>{YES}", YES),
        ("Who?<|im_start|>assistant\n<think>\n\n</think>\n\n", YES, YES),
        ("Who?\nHere are my reasoning steps:\n", "Passage 1 is about ferries.", ""),
        ("<|assistant|>[THINK]", "Passage 1 is", ""),  # special tokens: what closed them may have been left out
        ("<|assistant|>[THINK]", "Passage 1 has it.", "Passage 1 has it."),
        ("<|start|>assistant<|channel|>analysis<|message|>", f"Hm.assistantfinal{YES}", YES),
        ("What does <think> mean?", "A tag", "A tag"),
        (["no text"], "Paris", "Paris"),
    ],
)
def test_a_thought_that_the_prompt_opened_has_to_be_closed(prompt: object, response: str, answer: str) -> None:
    assert final_answer(with_opening(prompt, response)) == answer


@given(st.text(max_size=400))
def test_text_without_marks_comes_back_as_it_was(text: str) -> None:
    if not set("<[◁:\n{`\x1b\x9b&") & set(text):
        assert final_answer(text) == text


@pytest.mark.parametrize(("length", "unwrapped"), [(20_000, True), (20_001, False)])
def test_an_object_is_read_up_to_twenty_thousand_characters(length: int, unwrapped: bool) -> None:
    text = '{"answer": "' + "a" * (length - 14) + '"}'
    assert len(text) == length
    assert (final_answer(text) == text) is not unwrapped


LABELLED = [
    ("Answer: No", "en", NO_ANSWER),
    ("**Final answer:** No", "en", NO_ANSWER),
    ("答案：否", "zh", NO_ANSWER),
    ("उत्तर: नहीं", "hi", NO_ANSWER),
    ("<answer>no</answer>", "en", NO_ANSWER),
    ("Let me see.\n<answer>no</answer>", "en", NO_ANSWER),
    ('{"answerable": false}', "en", NO_ANSWER),
    ('{"verdict": "no", "confidence": 0.92}', "en", NO_ANSWER),
    ('{"beantwortbar": false}', "de", NO_ANSWER),
    ('{"unanswerable": true}', "en", NO_ANSWER),
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
    ("Relevant contexts: none", "en", NO_ANSWER),
    ("1. No\n2. No", "en", NO_ANSWER),
    ("1. No\n2. Yes\n3. No", "en", ANSWER),
    ("Context 1: No, no se menciona.\nContext 2: Sí, se menciona.", "es", ANSWER),
    ("I don&#39;t know", "en", NO_ANSWER),
    ("I do n't know", "en", NO_ANSWER),
    # the same forms around what is no verdict
    ("Name: Nobel", "en", ANSWER),
    ("Answer: Nobody knows that film better than Kore-eda.", "en", ANSWER),
    ("Answer: No, Lisbon is not the capital of Spain.", "en", ANSWER),
    ("The band is called: No Doubt", "en", ANSWER),
    ('{"answer": "Paris"}', "en", ANSWER),
    ("With these passages: no.", "en", NO_ANSWER),
    ("Werdykt brzmiałby więc: nie.", "pl", NO_ANSWER),
    ("Dozvídáme se jen, kdy práce začaly.", "cs", NO_ANSWER),
    ("工事がいつ始まったかしか述べられていません。", "ja", NO_ANSWER),
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
ALOUD = [  # the last verdict holds, and the rule quoted is none
    ('To say "Yes, answer is present", a context must give it. None does. So my answer is "I don\'t know".', NO_ANSWER),
    ("First I thought it was not there, I don't know. But wait, context 3 says 1889! Yes, answer is present.", ANSWER),
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
    ("अंश 1 से 6 पुलों के बारे में हैं। अंश 7 वर्ष बताता है, 1932।", "hi", ANSWER),
    ("Az 1–6. szöveg hidakról szól. A 7. szöveg megadja az évet: 1932.", "hu", ANSWER),
    ("지문 1부터 6까지는 다리에 관한 것입니다. 지문 7은 1932년이라고 합니다.", "ko", ANSWER),
    ("บริบทที่ 1 ถึง 6 เกี่ยวกับสะพาน บริบทที่ 7 ระบุปี 1932", "th", ANSWER),
    ("1-6 numaralı metinler köprüler hakkında. 7 numaralı metin yılı veriyor: 1932.", "tr", ANSWER),
    ("Àyọkà 1 sí 6 ń sọ nípa afárá. Àyọkà 7 sọ ọdún náà, 1932.", "yo", ANSWER),
    ("None of the passages, not even passage 7, gives the year.", "en", NO_ANSWER),
    ("Passage 7 comes close but does not say when.", "en", NO_ANSWER),
    ("Only passage 7 comes close, but it does not give the year.", "en", NO_ANSWER),
    ("Passages 1 to 6 are about bridges. Passage 7 mentions the tower but not the year.", "en", NO_ANSWER),
    ("Passages 1 to 6 are about bridges. Passage 7 is about a river.", "en", NO_ANSWER),
    ("لا يذكر أي من المقاطع، ولا حتى المقطع 7، السنة.", "ar", NO_ANSWER),
    ("Keine der Passagen, nicht einmal Passage 7, nennt das Jahr.", "de", NO_ANSWER),
    ("Mikään katkelmista, ei edes katkelma 7, ei kerro vuotta.", "fi", NO_ANSWER),
    ("कोई भी अंश, यहाँ तक कि अंश 7 भी, वर्ष नहीं बताता।", "hi", NO_ANSWER),
    ("Egyik szöveg sem, még a 7. szöveg sem adja meg az évet.", "hu", NO_ANSWER),
    ("どの文章も、文章7でさえも、年を述べていません。", "ja", NO_ANSWER),
    ("지문 7을 포함하여 어떤 지문도 연도를 언급하지 않습니다.", "ko", NO_ANSWER),
    ("Ни один из отрывков, даже отрывок 7, не называет год.", "ru", NO_ANSWER),
    ("Metinlerin hiçbiri, metin 7 bile, yılı vermiyor.", "tr", NO_ANSWER),
    ("Kò sí àyọkà kankan, àní àyọkà 7 pàápàá, tó sọ ọdún náà.", "yo", NO_ANSWER),
    ("没有一个段落给出年份，连段落7也没有。", "zh", NO_ANSWER),
]
DENIED = [
    ("Not 'I don't know': passage 7 gives the year.", "en", ANSWER),
    ("I can say the answer is present because passage 3 gives the date.", "en", ANSWER),
    ('ليست "لا أعرف": المقطع 7 يذكر السنة.', "ar", ANSWER),
    ('"আমি জানি না" নয়: অনুচ্ছেদ ৭ সালটি দেয়।', "bn", ANSWER),
    ("Nicht „Ich weiß es nicht“: Passage 7 nennt das Jahr.", "de", ANSWER),
    ("Pas « Je ne sais pas » : le passage 7 donne l'année.", "fr", ANSWER),
    ('"मुझे नहीं पता" नहीं: अंश 7 वर्ष बताता है।', "hi", ANSWER),
    ("「わかりません」ではありません。文章7に年が書かれています。", "ja", ANSWER),
    ('"모르겠습니다"가 아닙니다. 지문 7이 연도를 알려 줍니다.', "ko", ANSWER),
    ('ไม่ใช่ "ฉันไม่ทราบ": บริบทที่ 7 ระบุปีไว้', "th", ANSWER),
    ('"Bilmiyorum" değil: metin 7 yılı veriyor.', "tr", ANSWER),
    ("不是“我不知道”：段落7给出了年份。", "zh", ANSWER),
]
GIVEN_WITH_A_CAVEAT = [
    ("1932年です。正確な日は不明です。", "ja", ANSWER),
    ("Она построена в 1932 году, хотя точный день не указан.", "ru", ANSWER),
    ("Это был 1932 год (отрывок 7); точная дата в тексте не названа.", "ru", ANSWER),
    ("它建于1932年，但没有给出具体日期。", "zh", ANSWER),
    ("لست متأكدًا أن هذا ما تريده، لكن المقطع 7 يقول 1932.", "ar", ANSWER),
    ("I am not sure this is what you want, but passage 7 says 1932.", "en", ANSWER),
    ("En ole varma, tarkoitatko tätä, mutta katkelma 7 sanoo 1932.", "fi", ANSWER),
    ("मुझे यकीन नहीं है कि आप यही चाहते हैं, लेकिन अंश 7 के अनुसार 1932।", "hi", ANSWER),
    ("원하시는 것인지 확실하지 않지만, 지문 7에 따르면 1932년입니다.", "ko", ANSWER),
    ("Sina uhakika kama hili ndilo unalotaka, lakini kifungu cha 7 kinasema 1932.", "sw", ANSWER),
    ("ฉันไม่แน่ใจว่านี่คือสิ่งที่คุณต้องการหรือไม่ แต่บริบทที่ 7 บอกว่า 1932", "th", ANSWER),
    ("İstediğiniz bu mu emin değilim ama metin 7 1932 diyor.", "tr", ANSWER),
    ("Kò dá mi lójú pé èyí ni o fẹ́, ṣùgbọ́n àyọkà 7 sọ 1932.", "yo", ANSWER),
    ("ใช่ บริบทที่ 2 ระบุปีที่สร้าง", "th", ANSWER),
    ("ใช่ คำตอบอยู่ในบริบท", "th", ANSWER),
]


@pytest.mark.parametrize(
    ("text", "language", "label"),
    [*LABELLED, *ONE_OF_SEVERAL, *DENIED, *GIVEN_WITH_A_CAVEAT, *((text, "en", label) for text, label in ALOUD)],
)
def test_a_verdict_is_read_whatever_stands_around_it(text: str, language: str, label: str) -> None:
    assert robust_label(text, language) == label


@pytest.mark.parametrize(
    ("text", "language", "abstains"), [*((*of, True) for of in TOPICS), *((*of, False) for of in CAVEATS)]
)
def test_another_topic_abstains_and_an_answer_after_a_caveat_answers(text: str, language: str, abstains: bool) -> None:
    assert robust_label(text, language) == (NO_ANSWER if abstains else ANSWER)
    assert is_abstention(text, language) is abstains


@pytest.mark.parametrize(
    ("text", "abstains", "alone"),
    [
        # as a part of a long answer, and where the question has one answer
        ("The passage gives two of three reasons: high taxes and poor harvests. The third is not given.", False, True),
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


@pytest.mark.parametrize("text", ["", "Paris", "Capital: Paris", "1. Paris\n2. Rome", "{", '{"a": 1}'])
def test_where_no_verdict_is_there_is_none(text: str) -> None:
    assert labelled_verdict(text, "en") is None
    assert labelled_verdict(f"Answer: the answer can be found\n{text}", "en") is True
