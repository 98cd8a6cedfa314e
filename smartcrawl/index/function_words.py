"""Function words of some languages: words of a question that say nothing about its subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_ENGLISH: Final = """
a an the this that these those some any each every either neither both such own same other i me my
mine myself you your yours he him his she her hers it its itself we us our ours they them their
theirs who whom whose which what when where why how whether am is are was were be been being do
does did doing done has have had having can could may might must shall should will would and or but
nor so yet if than then because as while until although though unless of in on at by for with
without from to into onto out off over about against between among through during before after
up down again not no only just also too very much many more most less few here there now ever never
always way want wants need needs get gets got let lets like one ones something anything someone
anybody everything please s t don doesn didn isn aren wasn won couldn shouldn wouldn ll ve re
"""
_GERMAN: Final = """
der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mich
mir dich dir sich uns euch mein meine meinen meinem meiner dein deine sein seine ihre ist sind war
waren bin bist wird werden wurde kann konnen muss mussen soll sollen will wollen darf habe hat haben
hatte nicht kein keine mit von vom zu zum zur im in an am auf aus bei beim fur uber unter nach vor
durch um wie was wer wo wann warum welche welcher welches wenn dass als auch noch nur so man
"""
_FRENCH: Final = """
le la les l un une des du de d et ou mais je j tu il elle on nous vous ils elles me m te t se s mon
ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce c cet cette ces qui que qu quoi dont
est sont etait etre suis ai as a ont avoir avait peut peux faire fait dois doit ne n pas plus dans
en au aux avec sans pour par sur sous entre vers chez comment quand pourquoi quel quelle quels
quelles si y
"""
_SPANISH: Final = """
el la los las un una unos unas y o pero yo tu el ella nosotros ellos ellas me te se mi mis su sus
lo le les que quien cual cuales como cuando donde por para con sin en de del al a es son era ser
estar esta estan he ha han hay puedo puede no si mas muy sobre entre desde hasta porque este esta
estos estas eso
"""
_ITALIAN: Final = """
il lo la i gli le l un uno una e o ma io tu lui lei noi voi loro mi ti si ci vi mio mia tuo suo sua
che chi cui quale quali come quando dove perche per con senza in nel nella di del della dei delle da
dal dalla a al alla su sul sulla tra fra e sono era essere ho ha hanno posso puo non piu se questo
questa questi queste
"""
_PORTUGUESE: Final = """
o a os as um uma uns umas e ou mas eu tu ele ela nos eles elas me te se meu minha seu sua que quem
qual quais como quando onde por para com sem em no na nos nas de do da dos das ao aos e sao era ser
estar esta estao tem ha posso pode nao mais muito sobre entre ate porque este esta isto isso
"""
_DUTCH: Final = """
de het een en of maar ik jij je hij zij ze wij we jullie u mij me hem haar ons hun mijn zijn is was
waren ben bent wordt worden kan kunnen moet moeten zal zullen wil heb heeft hebben had niet geen met
van voor naar bij in op aan uit door over onder om te er die dat dit deze wie wat waar wanneer
waarom hoe als dan ook nog
"""
ENGLISH: Final = frozenset(_ENGLISH.split())
_OTHERS: Final[Mapping[str, frozenset[str]]] = {
    "de": frozenset(_GERMAN.split()),
    "fr": frozenset(_FRENCH.split()),
    "es": frozenset(_SPANISH.split()),
    "it": frozenset(_ITALIAN.split()),
    "pt": frozenset(_PORTUGUESE.split()),
    "nl": frozenset(_DUTCH.split()),
}


def search_function_words(words: Sequence[str]) -> frozenset[str]:
    """Return the list of the language that most of the words of a question fit.

    English unless another list has more of the words: "die" alone is an English word. Words are
    in lower case, without accents.
    """
    best, most = ENGLISH, max(1, sum(word in ENGLISH for word in words))
    for known in _OTHERS.values():
        count = sum(word in known for word in words)
        if count > most:
            best, most = known, count
    return best
