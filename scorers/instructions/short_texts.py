"""Whether a text of a few words is in a language, which no statistics of letters can tell.

In: a text in lower case, and what langdetect knows of letters. Out: whether the text may be in the language. Three
titles in capitals look like Catalan to a detector, and `hello` like Finnish. Here a short text is English unless
something shows another language: a common word of one, as many times as English ones, a letter that English has not, or
letters that would be too strange for names and titles. A text in another language has to hold a common word of it, and
more of them than of other languages. Pure, linear in the length of the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

MOST_LETTERS: Final = 100  # of a short text; of longer ones a detector tells the language
_ENGLISH: Final = "en"
# What the letters of a text may speak against its language, in nats: names of three fruits come to 70.
_MOST_AGAINST: Final[Mapping[bool, float]] = {True: 90.0, False: 25.0}  # English, any other
_ENGLISH_LETTERS: Final = re.compile(r"[a-z\xe9\xef]*")  # of caf\xe9 and na\xefve too
_LEAST_SHARE: Final = 0.25  # of the different words: fewer foreign ones stand in names, as of Los Angeles
_UNSEEN: Final = 5e-5  # the chance of what a language's profile does not have; langdetect's own smoothing
_WORD: Final = re.compile(r"[^\W\d_]+")
_COMMON: Final[Mapping[str, str]] = {
    "en": "a about after all also am an and any are as at be because best by bye can come day die do down else "
    "first for from get go good great happy have he hello help her here hi his home house how i if in "
    "into is it its know land let life like long love made man me morning my new next nice night no none "
    "not now of off ok okay old on one only or other our out over please red sale she so some stop sure "
    "thank thanks that the their them then there these they this three time to today two up us very was "
    "we welcome well what when where which who will with world yes you your",
    "de": "aber alle als am auch auf aus bei bin bis bist bitte danke das dem den der des die du ein eine einen "
    "einer er es für gibt gut gute guten habe haben hallo heute hier ich ihr im ist ja jetzt kann kein "
    "keine man mein meine mich mir mit morgen nach nacht nein nicht noch nur oder schön sehr sein sich "
    "sie sind tag und uns vom von vor war was welt wie wir wird wo zu zum zur über",
    "fr": "au aux avec bien bonjour bonne bonsoir ce ces cette chez comme dans de des du elle elles en est et "
    "eux il ils je jour la le les leur lui ma mais merci mes moi mon monde ne non nous nuit ou oui où par "
    "pas plus pour quand que qui sa sais salut sans ses si son sont sur ta te tes toi ton tout très tu un "
    "une va voici vous à été être",
    "es": "adiós al amigo así buenas bueno buenos como con cuando de del desde dias donde días el ella ellos en "
    "eres es esta este estoy está gracias hay hola hoy la las lo los mi muchas mucho mundo muy más nada "
    "no noches nos nosotros o para pero por porque que quien qué se ser si sin sobre son soy su sus sí "
    "también te tengo tiene todo tu un una uno y yo",
    "it": "al anche bella bene buona buongiorno buono che chi ci ciao come con cosa da dal del della di dove e "
    "gli grazie ha ho i il in io la le lei lo lui ma mi mille mio molto mondo nel nella no noi non o per "
    "perché però più quando questo se sei sera si sono su tu tutti tutto un una uno voi è",
    "pt": "ao as bem boa bom com como da das de dia do dos e ela ele em então essa este está eu isso já mais "
    "mas me meu mim minha muito mundo na nas noite nos não nós o obrigada obrigado olá onde os ou para "
    "pela pelo por quando que quem se sei sem seu sim sou sua são também te tem todo tu tudo um uma você "
    "é",
    "nl": "aan alles als ben bent dag dan dank dat de deze die dit dus een en er geen goed goede goedemorgen "
    "hallo heb hebben heeft het hier hij hoe ik in is ja je jij kan maar met mijn naar nee niet nog nu of "
    "om ons onze ook op over te tot uit van veel voor waar wat we wel wereld wie wij ze zij zijn zo",
    "sv": "alla att av bra de den det detta dig du där eller en ett från för god han har hej hon hur här i "
    "ingen inte ja jag kan man med men mig min mycket nej ni och om oss på som tack till under upp var vi "
    "vill världen är",
    "da": "af at de den der det dig du eller en er et for fra god goddag han har hej hun hvad hvor i ikke ja "
    "jeg kan man med meget men mig min nej og om os på sig som tak til var ved verden vi",
    "fi": "ei että hei hyvin hyvää hän ja jos kaikki kanssa kiitos kuin kun kyllä maailma me minun minä moi "
    "mutta nyt ole olen oli olla on ovat päivää se sen sinä tai te tämä vain voi",
    "pl": "ale bardzo być co czy dla do dobry dzień dziękuję gdzie i ich ja jak jego jest jestem już kto ma mi "
    "mnie na nie o od po pod przez się są tak tam ten to tu tylko w witaj wszystko z za świat że",
    "tr": "ama bana ben bir bu da daha de değil dünya en evet gibi günayd\u0131n hay\u0131r her ile iyi için kadar ki "
    "merhaba mi nas\u0131l ne o olarak sen siz teşekkürler var ve yok çok",
    "vi": "anh bạn cho chào các có của em không là một người những này thế tôi và với xin được",
    "sw": "asante habari hapana hii hujambo jambo kama karibu katika kila kwa lakini mimi na ndiyo ni sana siku "
    "wa wote ya yake za",
    "id": "adalah aku anda apa dan dari dengan di halo ini itu kami kamu ke kita pada saya sudah terima tidak "
    "untuk yang",
    "ro": "a acest ai am bună ca ce cu că da de din ea el este eu fi la mai mulțumesc nu o pe pentru salut sau "
    "se si sunt un una ziua în și",
    "cs": "ahoj ale ano být co den do dobrý děkuji jak je jsem jsou já kde má na ne není o od po pro se si svět "
    "ta tak ten to v ve za že",
    "hu": "a az egy ez hogy igen is jó köszönöm meg napot nem szia van világ volt és",
    "hr": "ali da dan dobar hvala i ja je kako na ne nije sam se smo su svijet to u za što",
    "tl": "ako ang at ay ba hindi ikaw ito ka kami ko mga mo na ng oo po sa salamat siya",
    "ca": "amb aquest bon bona com del dels dia el els gràcies i jo les món no on per que són també tot una és",
    "no": "at av de den det du eller en er et for fra god han har hei hun hva hvor i ikke ja jeg kan med meg "
    "men min nei og om oss på som takk til var verden vi",
}
COMMON: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(words.split()) for language, words in _COMMON.items()
}
_ANYWHERE: Final = frozenset().union(*COMMON.values())


def is_short(text: str) -> bool:
    """Return whether a text has so few letters that a detector could not tell its language."""
    return sum(map(str.isalpha, text)) <= MOST_LETTERS


def may_be(
    language: str, text: str, languages: Sequence[str], chances: Mapping[str, Sequence[float]]
) -> bool | None:
    """Return whether a short text may be in a language; None where its words say nothing.

    Args:
        language: by its code.
        text: in lower case.
        languages: those of the profiles, in the order of `chances`.
        chances: of up to three letters in a row, in each of the languages.
    """
    said = set(_WORD.findall(text))
    own = said & COMMON.get(language, frozenset())
    is_english = language == _ENGLISH
    foreign = said & _ANYWHERE - COMMON.get(language, frozenset())
    if is_english:
        foreign |= {word for word in said if not _ENGLISH_LETTERS.fullmatch(word)}
    if len(foreign) > len(own) and len(foreign) >= _LEAST_SHARE * len(said):
        return False
    is_likely = bool(said) if is_english else len(own) > len(foreign)
    if is_likely and _against(language, said, languages, chances) <= _MOST_AGAINST[is_english]:
        return True
    return None


def _against(
    language: str, said: set[str], languages: Sequence[str], chances: Mapping[str, Sequence[float]]
) -> float:
    """Return by how many nats the letters are likelier in another language; infinite without a profile of this one."""
    if language not in languages:
        return math.inf
    sums = [0.0] * len(languages)
    for word in sorted(said):
        spaced = f" {word} "
        for size in (1, 2, 3):
            for start in range(len(spaced) - size + 1):
                for number, chance in enumerate(chances.get(spaced[start : start + size], ())):
                    sums[number] += math.log(chance + _UNSEEN)
    return max(sums) - sums[languages.index(language)]
