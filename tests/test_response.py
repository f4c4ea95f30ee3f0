"""What of an output is its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custom_metrics.reading.response import final_answer, with_opening

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
