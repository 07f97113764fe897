"""Every instruction of IFEval and of IFBench's training rows: what it asks for, what holds to it, what does not."""
# ruff: noqa: RUF001 - letters of many scripts are the point

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.text_tables import listed, right_and_wrong


class Case(NamedTuple):
    kwargs: dict[str, Any] | None
    right: tuple[str, ...]
    wrong: tuple[str, ...]


PROMPT = "Write a limerick about\n a cat named Tom."
REQUEST = "write a limerick about a cat named Tom."  # the same, word for word
# A sentence in each of the languages that IFEval and IFBench ask for.
LANGUAGES = {
    "ar": "ذهبت اليوم إلى السوق واشتريت الخبز والفاكهة لأطفالي.",
    "bg": "Днес отидох до пазара и купих хляб и плодове за децата си.",
    "bn": "আমি আজ বাজারে গিয়েছিলাম এবং আমার সন্তানদের জন্য রুটি ও ফল কিনেছি।",
    "de": "Der Zug fährt heute leider erst gegen Mittag, weil auf der Strecke noch gearbeitet wird.",
    "en": "The train leaves at noon today because they are still working on the line.",
    "es": "Hoy fui al mercado y compré pan y fruta para mis hijos.",
    "fa": "امروز به بازار رفتم و برای بچه‌هایم نان و میوه خریدم.",
    "fi": "Kävin tänään torilla ja ostin lapsilleni leipää ja hedelmiä.",
    "fr": "Aujourd'hui je suis allé au marché et j'ai acheté du pain pour mes enfants.",
    "gu": "હું આજે બજારમાં ગયો અને મારા બાળકો માટે રોટલી અને ફળો ખરીદ્યા.",
    "he": "היום הלכתי לשוק וקניתי לחם ופירות לילדים שלי.",
    "hi": "मैं आज बाज़ार गया और अपने बच्चों के लिए रोटी और फल खरीदे।",
    "it": "Oggi sono andato al mercato e ho comprato il pane per i miei figli.",
    "ja": "今日は市場に行って、子供たちのためにパンと果物を買いました。",
    "kn": "ನಾನು ಇಂದು ಮಾರುಕಟ್ಟೆಗೆ ಹೋಗಿ ನನ್ನ ಮಕ್ಕಳಿಗೆ ಹಣ್ಣುಗಳನ್ನು ಖರೀದಿಸಿದೆ.",
    "ko": "오늘 시장에 가서 아이들을 위해 빵과 과일을 샀습니다.",
    "ml": "ഞാൻ ഇന്ന് ചന്തയിൽ പോയി എന്റെ കുട്ടികൾക്ക് പഴങ്ങൾ വാങ്ങി.",
    "mr": "मी आज बाजारात गेलो आणि माझ्या मुलांसाठी भाकरी आणि फळे विकत घेतली.",
    "ne": "म आज बजार गएँ र मेरा छोराछोरीका लागि रोटी र फलफूल किनेँ।",
    "pa": "ਮੈਂ ਅੱਜ ਬਾਜ਼ਾਰ ਗਿਆ ਅਤੇ ਆਪਣੇ ਬੱਚਿਆਂ ਲਈ ਰੋਟੀ ਅਤੇ ਫਲ ਖਰੀਦੇ।",
    "pl": "Dzisiaj poszedłem na targ i kupiłem chleb i owoce dla moich dzieci.",
    "pt": "Hoje fui ao mercado e comprei pão e fruta para os meus filhos.",
    "ru": "Сегодня я ходил на рынок и купил хлеб и фрукты для своих детей.",
    "sw": "Watoto wanacheza mpira uwanjani kila siku baada ya shule kwa sababu wanapenda sana mchezo huo.",
    "ta": "நான் இன்று சந்தைக்குச் சென்று என் குழந்தைகளுக்கு பழங்கள் வாங்கினேன்.",
    "te": "నేను ఈరోజు మార్కెట్‌కు వెళ్లి నా పిల్లల కోసం పండ్లు కొన్నాను.",
    "th": "วันนี้ฉันไปตลาดและซื้อขนมปังกับผลไม้ให้ลูก ๆ ของฉัน",
    "uk": "Сьогодні я ходив на ринок і купив хліб та фрукти для своїх дітей.",
    "ur": "آج میں بازار گیا اور اپنے بچوں کے لیے روٹی اور پھل خریدے۔",
    "vi": "Hôm nay tôi đi chợ và mua bánh mì và trái cây cho các con của tôi.",
}
GERMAN = LANGUAGES["de"]
ENGLISH = LANGUAGES["en"].lower().strip(".")


def _cases(table: str) -> dict[str, Case]:
    return {
        head.split(" ")[0]: Case(json.loads(head.split(" ", 1)[1]), right, wrong)
        for head, right, wrong in right_and_wrong(table)
    }


# Of IFEval, and behind `copy:copy` IFBench's training rows.
CASES = {
    **_cases(r"""
# change_case:capital_word_frequency {"capital_frequency": 2, "capital_relation": "at least"}
The USA and NASA agree.¦I saw GPT-4.
✗The usa and NASA agree.¦Nothing Here Is Capital
# change_case:english_capital {}
THE TRAIN LEAVES AT NOON TODAY BECAUSE THEY ARE STILL WORKING ON THE LINE!¦THERE ARE 3 OF THEM IN THE HOUSE.
✗the train leaves at noon today because they are still working on the line
✗THE TRAIN LEAVES AT NOON TODAY BECAUSE THEY ARE STILL WORKING ON THE LINE ok
✗DER ZUG F\u00c4HRT HEUTE LEIDER ERST GEGEN MITTAG, WEIL AUF DER STRECKE NOCH GEARBEITET WIRD.
# change_case:english_lowercase {}
the train leaves at noon today because they are still working on the line.
there are 3 of them in the house. 😀
✗The train leaves at noon today because they are still working on the line
✗der zug f\u00e4hrt heute leider erst gegen mittag, weil auf der strecke noch gearbeitet wird.
# combination:repeat_prompt {"prompt_to_repeat": "Write a limerick about\n a cat named Tom."}
Write a limerick about⏎ a cat named Tom.⏎⏎There once was a cat
write a limerick about a cat named Tom. There once was a cat
✗There once was a cat¦Write a limerick about⏎ a cat named Tom.¦Write a limerick about⏎ a cat named Tom. ***
✗Sure! Write a limerick about⏎ a cat named Tom. There once was a cat
# combination:two_responses {}
One way.⏎******⏎Another way.¦******⏎One⏎******⏎Two⏎******
✗One way.¦Same.⏎******⏎same.¦a ****** b ****** c¦a ******¦a ****** ...¦a *** b
# detectable_content:number_placeholders {"num_placeholders": 2}
Dear [name], I live at [address].
✗Dear [name]¦[] []¦see [this](https://a.test) and [that](https://b.test)¦[[[[¦[name [
# detectable_content:postscript {"postscript_marker": "P.S."}
Yours, Tom⏎⏎P.S. I am late.¦Yours.⏎p. s. late¦It is done. **P.S.** See you
✗Yours, Tom¦P.S. I am late.¦Yours, Tom⏎P.S.¦Yours, Tom⏎P.P.S. late¦See chap.s.12 of it
# detectable_format:constrained_response null
My answer is yes.¦My answer is no. It rains.
✗Yes.¦My answer is yes. My answer is no. My answer is maybe.¦my answer is perhaps.
# detectable_format:json_format {}
{"a": [1, 2]}¦```json⏎{"a": "b"}⏎```¦```⏎[1]⏎```
✗{}¦[]¦1¦"text"¦null¦{'a': 1}¦Here: {"a": 1}¦{"a": NaN}¦{"a": 1} {"b": 2}¦```json⏎{⏎```
# detectable_format:multiple_sections {"section_spliter": "Section", "num_sections": 2}
Section 1⏎It begins.⏎Section 2⏎It ends.¦## Section 1: It⏎⏎text⏎⏎**Section 2**⏎more
✗Section 1⏎It begins.¦Section 1⏎Section 2⏎¦see Section 1 and Section 2¦Section 1⏎a⏎Section 1⏎b
# detectable_format:number_bullet_lists {"num_bullets": 2}
* one⏎* two¦Two:⏎- one⏎  + two⏎---⏎
✗* one¦* one⏎* two⏎- three¦* ⏎* ¦**one**⏎**two**¦1. one⏎2. two
# detectable_format:number_highlighted_sections {"num_highlights": 2}
*one* and *two*¦**one** and ***two words***
✗*one*¦** ** and * *¦* one⏎* two⏎* three¦****¦* one * and * two *
# detectable_format:title {}
<<A title>>⏎⏎text¦text <<t>>
✗A title¦<<>> text¦<< >> text¦<<...>> text¦<a title>
# keywords:existence {"keywords": ["cat", "C++ (11)"]}
A cat knows c++ (11).¦CATS, C++ (11)
✗A cat.¦C++ (11)¦a cat, C11
# keywords:forbidden_words {"forbidden_words": ["cat", "dog"]}
The category is dogma.
✗A Cat.¦dog-like¦cat¦A _cat_ sat.
# keywords:frequency {"keyword": "cat", "frequency": 2, "relation": "at least"}
Cat and cat¦cat cat cat
✗cat¦dog
# keywords:letter_frequency {"letter": "e", "let_frequency": 3, "let_relation": "less than"}
Every dog¦two of it: ee
✗eee¦Eleven e
# length_constraints:nth_paragraph_first_word {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"}
First this.⏎⏎Then that.¦First this.⏎ ⏎⏎"Then", that.
✗First this.⏎⏎Thenceforth that.¦Then that.¦First this.⏎Then that.¦a b⏎⏎c d⏎⏎Then¦Then⏎⏎now
# length_constraints:number_paragraphs {"num_paragraphs": 2}
one⏎***⏎two¦***⏎one⏎⏎* * *⏎⏎two⏎***
✗one¦one⏎⏎two¦one *** two *** three¦one *** *** two¦one *** ...
# length_constraints:number_sentences {"num_sentences": 2, "relation": "at least"}
One. Two.¦Is it? it is!¦One.⏎Two without a mark
✗Only one.¦Dr. Who came at 5 p.m. today¦1. One thing¦...¦It costs 3.50 dollars.
# length_constraints:number_words {"num_words": 3, "relation": "less than"}
two words¦one
✗three words here¦one two three four
# punctuation:no_comma {}
Hello world
✗Hello, world¦Hello\uff0c world¦\u0645\u0631\u062d\u0628\u0627\u060c
# startend:end_checker {"end_phrase": "Is there anything else?"}
It is done. Is there anything else?¦"Done.⏎Is there  anything ELSE?"
✗Is there anything else?¦Is there anything else? No.¦It is done.¦Is there anything else? ok?
# startend:quotation {}
"It is done."¦\u201cIt is done.\u201d
✗"¦""¦"It is done.¦It is done.¦'It is done.'¦" "
# copy:copy {"prompt_to_repeat": "Write a limerick about\n a cat named Tom."}
Write a limerick about⏎ a cat named Tom.¦write a limerick about a cat named Tom.
✗Write a limerick about⏎ a cat named Tom. There once¦There once was a cat
# copy:copying_simple {"prompt_to_repeat": "Write a limerick about\n a cat named Tom."}
Write a limerick about⏎ a cat named Tom.¦write a limerick about a cat named Tom.
✗Write a limerick about⏎ a cat named Tom.!¦Sure: Write a limerick about⏎ a cat named Tom.
# copy:repeat_phrase {"phrase": "Time flies when having fun", "small_n": 2}
time crawls when having fun, and Time flies before having fun.
✗Time flies when having fun. Time crawls when having fun. Time runs when having fun.
✗Time crawls when having fun¦Time crawls before having fun, time runs when having fun
# count:count_increment_word {"keyword1": "cat", "keyword2": "dog"}
A dog, a cat, a dog.
✗A cat, a dog.¦cat cat dog dog¦dog dog
# count:count_unique {}
Every word here stands once, and that holds.¦well-known, known.
✗The cat saw the dog.¦ha ha
# count:counting_composition {"n_sent": 2, "n_words": 3}
I am here. You are there.⏎* * *⏎We don't sing. They never dance.⏎***⏎It rains now. Nobody seems sad.
✗I am here. You are there.⏎***⏎We all sing. They never dance.¦I am here.⏎***⏎You are there.⏎***⏎It is.
✗I am here. You are there.⏎***⏎We all sing. They never dance.⏎***⏎It rains. Nobody seems sad.
# count:lowercase_counting {"N": 2}
TWO words HERE only¦NONE
✗three of them¦the,quick-brown
# detectable_format:bigram_wrapping {}
<<I am>> <<at home>>¦<<I am>> <<at home>>, <<now>>¦<<I am>> alone
✗I am at home¦<<I am at home>>¦<<I>> <<am>>¦home¦<<I am>> at home¦<<a>><<b c>>
# detectable_format:sentence_hyphens {}
It rains.-The sun shines.-All is well.¦Only one.
✗It rains. The sun shines.¦It rains.⏎It shines¦It rains.- The sun shines.¦It rains. -It shines.
# detectable_format:square_brackets {}
[Every] [word] [here].
✗[Every word here]¦[Every] word¦[] [word]¦Every
# first_word:first_word_answer {"first_word": "yes"}
Yes, it is.¦**Yes** it is¦yes
✗Yesterday it was.¦It is, yes¦No
# first_word:first_word_sent {"first_word": ["cats"]}
Cats sleep. Cats eat! cats play
✗Cats sleep. Dogs eat.¦Cats sleep.They eat.¦We
# keywords:exclude_word_harder {"keyword": "in"}
Inside the inn.
✗Come in.¦In short¦put it in it¦(in)
# keywords:keyword_specific_position {"keyword": "cat", "n": 2, "m": 3}
Hello. This, my Cat, is Tom.
✗This my cat.¦Hello. The cat.¦Hello. The cat is here.¦Hello. One two category.
# keywords:no_adjacent_consecutive {}
The cat sleeps here¦big apples, red
✗apples be good¦Cats dream¦yellow Zebra
# keywords:palindrome {}
Tom saw a kayak.¦A man, a plan, a canal: Panama!¦He said "Was it a car or a cat I saw" twice
✗I saw a cat.¦aaa zzz¦a b c¦It is 1221
# keywords:start_end {}
Cats love cats¦**Stop** it now, stop
✗Cats love cats.¦Cats love dogs¦cats¦"Cats love cats"
# keywords:word_count_different_numbers {"keyword": "cat", "frequency": 2, "relation": "less than"}
one cat¦none
✗Cat cat¦cats, a cat
# keywords:word_once {"keyword": "flight"}
A flight is here¦FLIGHT
✗flights and a flight¦none
# last_word:last_word_answer {"last_word": "home"}
Let us go home.¦"Go home!"¦home
✗home we go¦We chrome¦We go home now
# last_word:last_word_sent {"last_word": "home"}
Go home. I am home! Home
✗Go home. I am here.¦Go home. Then
# letters:letter_counting {"N": 5, "relation": "at least"}
ab cde¦12345 abcde
✗abcd¦1 2 3 4 5 a
# letters:letter_counting2 {"letter": "#", "let_frequency": 2, "let_relation": "at least"}
#one #two
✗#one¦one two
# new:copy_span_idx {"prompt_to_repeat": " Write a limerick about a cat.", "n_start": 1, "n_end": 6}
Write¦write⏎
✗Write a¦limerick¦Writ
# paragraphs:paragraphs {}
one⏎***⏎two
✗one⏎⏎two¦one *** two *** three¦one
# paragraphs:paragraphs2 null
one⏎⏎two¦⏎⏎one⏎more⏎ ⏎two⏎⏎
✗one⏎two¦a⏎⏎b⏎⏎c¦one⏎⏎...
# punctuation:punctuation_dot null
Hello world!
✗Hello world.¦3.5¦Hello\u2026 world
# punctuation:punctuation_exclamation null
Hello world.
✗Hello world!¦Hello\uff01 world
"""),
    "language:response_language": Case(
        {"language": "de"},
        (GERMAN, f"{GERMAN}\n{GERMAN}", GERMAN.upper()),
        (ENGLISH, LANGUAGES["hi"], LANGUAGES["sw"], "12345", f"{ENGLISH} " * 40 + f"{GERMAN} " * 60),
    ),
    "copy:copying_multiple": Case(
        {"prompt_to_repeat": PROMPT, "N": 2},
        (f"{PROMPT}\n******\n{REQUEST}",),
        (PROMPT, f"{PROMPT}\n{PROMPT}", f"{PROMPT}******{PROMPT}******{PROMPT}", f"{PROMPT}******There once"),
    ),
}

LISTED = "My answer is yes. My answer is no. My answer is maybe."
# (what the row asks for, what a policy may try, why it must not pay)
ATTACKS: tuple[tuple[tuple[tuple[str, dict[str, Any] | None], ...], str, str], ...] = (
    ((("punctuation:no_comma", {}),), "<think>no comma", "still thinking"),
    ((("punctuation:no_comma", {}),), "<think>fine</think>", "nothing after the thinking"),
    ((("punctuation:no_comma", {}),), "\u200b \u3164", "invisible"),
    ((("keywords:forbidden_words", {"forbidden_words": ["cat"]}),), "...", "only punctuation"),
    ((("detectable_format:json_format", {}),), "{}", "empty JSON"),
    ((("detectable_format:json_format", {}),), "[" * 100_000, "nested JSON"),
    ((("detectable_format:constrained_response", None),), LISTED, "all options"),
    (
        (("keywords:existence", {"keywords": ["cat"]}),),
        "<think>cat</think>dog",
        "the keyword in the thinking alone",
    ),
    (
        (("keywords:existence", {"keywords": ["cat"]}),),
        "dog</think>dog<think>cat",
        "the keyword in an unclosed thought",
    ),
    ((("startend:end_checker", {"end_phrase": "That is all."}),), "That is all.", "the phrase alone"),
    ((("combination:two_responses", {}),), "a ****** a", "the same twice"),
    ((("combination:repeat_prompt", {"prompt_to_repeat": PROMPT}),), PROMPT, "the request alone"),
    (
        (("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 3}),),
        "Day 1 Day 2 Day 3",
        "sections without content",
    ),
    (
        (("detectable_format:number_highlighted_sections", {"num_highlights": 3}),),
        "** ** ** ** ** **",
        "empty highlights",
    ),
    ((("keywords:palindrome", None),), "I saw a cat, and a", "letters as palindromes"),
    (
        (
            ("punctuation:no_comma", {}),
            ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}),
        ),
        "one two",
        "one of two holds",
    ),
)
NULL_RESPONSES = listed(r"¦⏎¦I don't know¦</think>¦pass¦<think>It is¦\boxed{}¦<answer></answer>¦  . \u0020")
