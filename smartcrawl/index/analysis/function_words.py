"""Function words of languages: a question is not about them.

Words are in lower case, without accents. Of languages that are taken in pairs of letters they are
pairs.
"""

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
_RUSSIAN: Final = """
и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было
вот от меня еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас там потом
себя ей может они тут где есть надо для мы тебя их чем была сам чтоб без чего под кто этот того
потому этого какой какая какие ним здесь этом мой чтобы были куда зачем при об это эта эти можно
нужно почему мои моя мое мою свой свою
"""
_TURKISH: Final = """
ve veya ile bir bu su o ben sen biz siz onlar ne nasil neden nicin nerede nereye kim hangi kac icin
gibi kadar daha en cok az da de ki mi mu ama fakat cunku eger ise var yok degil olarak olan olur
icinde uzerinde her hepsi bazi sonra once bana beni benim nedir edilir yapilir yaparim ederim
"""
_SWEDISH: Final = """
och det att i en jag hon som han pa den med var sig for sa till ar men ett om hade de av icke mig du
henne da sin nu har inte hans honom skulle hennes dar min man ej vid kunde nagot fran ut nar efter
upp vi dem vara vad over an dig kan sina har ha mot alla under nagon eller allt mycket sedan ju
denna sjalv detta at utan varit hur ingen mitt ni bli blev oss din dessa nagra mina vilken er
varfor vilket vilka
"""
_DANISH: Final = """
og i jeg det at en den til er som pa de med han af for ikke der var mig sig men et har om vi min
havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil
blev kunne ind nar vaere dog noget ville jo deres efter ned skulle denne end dette mit ogsa under
have dig anden hende mine alt meget sit sine vor mod disse hvis din nogle hos blive mange hvordan
hvorfor kan jeg
"""
_NORWEGIAN: Final = """
og i jeg det at en et den til er som pa de med han av ikke der sa var meg seg men ett har om vi min
mitt ha hadde hun na over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv
her alle vil bli ble blitt kunne inn nar vaere kom noen noe ville dere deres kun ja etter ned
skulle denne for deg si sine sitt mot a meget hvorfor dette disse uten hvordan ingen din hvilken
"""
_FINNISH: Final = """
ja tai mutta etta jos kun niin kuin on ei ole oli ovat olen olla se han mina sina me te he tama tuo
ne nama mika mita missa mihin mista miten miksi kuka kenen milloin joka jotka voi voin voiko kanssa
myos vain jo viela sitten siis en et emme miten minun
"""
_HUNGARIAN: Final = """
a az egy es vagy de hogy ha mint nem is van volt vannak lesz lehet kell ez ezek azok en te o mi ti
ok mit hol hova honnan hogyan miert mikor ki melyik milyen meg csak mar mert akkor amely ami aki
nekem engem
"""
_ROMANIAN: Final = """
si sau dar ca in la de pe cu din pentru un o unei unui al ai ale este sunt era fi fost am ai are nu
se ce cine care cum cand unde cat acest aceasta acesti aceste eu tu el ea noi voi ei mai doar daca
prin sa imi mea meu pot poate
"""
_POLISH: Final = """
i w we z ze na do nie to sie jest sa byl byla bylo jak co kto gdzie kiedy dlaczego ktory ktora ktore
czy a ale lub albo oraz o od po przez przy dla za pod nad tym tego ten ta te jego jej ich moj moja
moje moge mozna mam jaki jaka jakie aby zeby ja ty on ona my wy oni
"""
_CZECH: Final = """
a i v ve z ze na do ne to se je jsou byl byla bylo jak co kdo kde kdy proc ktery ktera ktere zda ale
nebo o od po pres pri pro za pod nad tento tato toto jeho jeji jejich muj moje mohu lze mam jaky
jaka aby ja ty on ona my vy oni s k u si by
"""
_CATALAN: Final = """
el la els les un una uns unes i o pero jo tu ell ella nosaltres em et es meu meva seu seva que qui
quin quina com quan on per amb sense a de del dels al als en es son era ser estar esta he ha han
puc pot no si mes molt sobre entre des fins perque aquest aquesta aquests aquestes l d
"""
_GREEK: Final = """
ο η το οι τα του τησ των τον την και ή να σε στο στη στην στον στισ στα με για απο πωσ πωσ τι ποιοσ
ποια ποιο που ποτε γιατι ειναι ηταν εχω εχει δεν μη μην θα αν οτι αλλα μου σου μασ σασ αυτο αυτη
αυτοσ ενα ενασ μια μπορω πρεπει κατα
"""
_ARABIC: Final = """
في من على الى عن مع هذا هذه ذلك تلك التي الذي الذين هو هي هم انا انت نحن ما ماذا كيف اين متى لماذا
هل كل بعض او ثم لا لم لن ان كان كانت يكون قد بعد قبل بين عند يمكن يمكنني و
"""
_HINDI: Final = """
के का की को में से है हैं था थे थी और या पर यह वह ये वे कि जो तो ही भी एक कैसे क्या क्यों कहाँ कब कौन किस
इस उस मैं हम आप मेरा मेरी अपने लिए साथ नहीं करें करना कर सकता सकते
"""
_INDONESIAN: Final = """
yang dan di ke dari untuk dengan pada adalah ini itu tidak atau juga dalam akan oleh saya kami kita
anda dia mereka apa siapa mana dimana kapan mengapa kenapa bagaimana cara bisa dapat ada sudah
belum seperti karena jika agar
"""
_JAPANESE: Final = """
方法 仕方 何故
"""
_CHINESE: Final = """
如何 怎么 么样 怎样 什么 为什 么在 哪里 哪个 是否 可以 怎麼
麼樣 怎樣 什麼 為什 哪裡 的方 方法 么把 样把
"""
_KOREAN: Final = """
어떻 떻게 무엇 어디 언제 하는 방법 하려 려면 나요 까요 습니 니까 하나 는법 에서 및
또는 싶어 어요 해요 세요
"""
ENGLISH: Final = frozenset(_ENGLISH.split())
_OTHERS: Final[Mapping[str, frozenset[str]]] = {
    "de": frozenset(_GERMAN.split()),
    "fr": frozenset(_FRENCH.split()),
    "es": frozenset(_SPANISH.split()),
    "it": frozenset(_ITALIAN.split()),
    "pt": frozenset(_PORTUGUESE.split()),
    "nl": frozenset(_DUTCH.split()),
    "ru": frozenset(_RUSSIAN.split()),
    "tr": frozenset(_TURKISH.split()),
    "sv": frozenset(_SWEDISH.split()),
    "da": frozenset(_DANISH.split()),
    "no": frozenset(_NORWEGIAN.split()),
    "fi": frozenset(_FINNISH.split()),
    "hu": frozenset(_HUNGARIAN.split()),
    "ro": frozenset(_ROMANIAN.split()),
    "pl": frozenset(_POLISH.split()),
    "cs": frozenset(_CZECH.split()),
    "ca": frozenset(_CATALAN.split()),
    "el": frozenset(_GREEK.split()),
    "ar": frozenset(_ARABIC.split()),
    "hi": frozenset(_HINDI.split()),
    "id": frozenset(_INDONESIAN.split()),
    "ja": frozenset(_JAPANESE.split()),
    "zh": frozenset(_CHINESE.split()),
    "ko": frozenset(_KOREAN.split()),
}


def search_function_words(words: Sequence[str]) -> frozenset[str]:
    """Return the list of the language that most of the words of a question fit.

    English unless another list has more of the words: "die" alone is an English word. In another
    script one word is enough. Words are in lower case, without accents.

    >>> "die" in search_function_words(["die", "lamp"])
    False
    >>> "в" in search_function_words(["экспорт", "в", "pdf"])
    True
    """
    best, most = ENGLISH, max(1, sum(word in ENGLISH for word in words))
    for known in _OTHERS.values():
        found = [word for word in words if word in known]
        count = len(found) + any(not word.isascii() for word in found)
        if count > most:
            best, most = known, count
    return best


def function_words_of(language: str) -> frozenset[str]:
    """Return the list of a language (ISO 639-1), in lower case and without accents; empty: none.

    >>> "pour" in function_words_of("fr"), function_words_of("")
    (True, frozenset())
    """
    return ENGLISH if language == "en" else _OTHERS.get(language, frozenset())
