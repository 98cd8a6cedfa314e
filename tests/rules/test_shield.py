"""Walls and collapsed pages are told; ordinary pages are let through, whoever protects them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.login import is_login_form
from smartcrawl.rules.shield import (
    BELIEVED_AFTER,
    EDITS,
    FEW,
    MANY,
    MAX_BODY,
    MAX_CAPTCHA_TEXT,
    MAX_REPEATED,
    MAX_TEXT,
    MAX_WAITING,
    MAX_WAITING_SIZE,
    MIN_COLLAPSE,
    MIN_REPEATED,
    START,
    Waiting,
    accepts_collapse,
    decide_challenge,
    edits_among_waiting,
    is_collapsed,
    is_repeated,
    may_be_edits,
    text_to_compare,
    text_without_ids,
)


def page(body, *, title="Orchard Notes", head=""):
    return (
        f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title>{head}"
        f"</head><body>{body}</body></html>"
    )


def wall(markup, *, status=200, headers=None):
    return decide_challenge(status, headers or {}, markup.encode())


#: What a site says of itself on each of its pages: more than a captcha's page may.
MENU = (
    "<nav>Trees, Grafting, Cider, Press days, Our shop, About us and how to find the old barn</nav>"
)
NEWS = "<main><h1>Pruning in late winter</h1>" + 40 * (
    "<p>Cut above a bud that looks away from the trunk, on a dry day, with a clean blade.</p>"
) + "</main>"  # fmt: skip

#: By name: what it is called, its page, and each of the marks without which it is none.
WALLS = {
    "cloudflare options": (
        "a Cloudflare challenge",
        page(
            "<noscript>Enable JavaScript and cookies to continue</noscript>"
            "<script>(function(){window._cf_chl_opt={cType:'managed',cRay:'8f'};}());</script>",
            title="Einen Moment, bitte…",
        ),
        ["_cf_chl_opt"],
    ),
    "cloudflare title": (
        "a Cloudflare challenge",
        page(
            "<h1>orchard.example</h1><p>Checking whether the connection is secure</p>"
            "<script src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1'></script>",
            title="\n  Just a moment...\n",
        ),
        ["Just a moment...", "/cdn-cgi/challenge-platform/"],
    ),
    "cloudflare block": (
        "a Cloudflare block",
        page(
            "<div id='cf-error-details'><h1>Sorry, you have been blocked</h1></div>",
            title="Attention Required! | Cloudflare",
        ),
        ["Attention Required! | Cloudflare", "cf-error-details"],
    ),
    "cloudflare rule": (
        "a Cloudflare block",
        page(
            "<div id=cf-wrapper><div id='cf-error-details'>Error 1020</div></div>",
            title="Access denied | orchard.example used Cloudflare to restrict access",
        ),
        ["used Cloudflare to restrict access", "cf-error-details"],
    ),
    "aws waf": (
        "an AWS WAF challenge",
        page(
            "<div id=challenge-container></div><noscript>JavaScript is disabled</noscript>",
            title="",
            head="<script>window.gokuProps = {'key':'AQ','iv':'Cg'};</script>"
            "<script src='https://1a.2b.eu-west-1.token.awswaf.com/1a/challenge.js'></script>",
        ),
        ["gokuProps", ".awswaf.com/"],
    ),
    "akamai behaviour": (
        "an Akamai challenge",
        page("<div id=sec-if-cpt-container><p>Powered and protected by Akamai</p></div>"),
        ["sec-if-cpt-container"],
    ),
    "akamai interstitial": (
        "an Akamai challenge",
        page(
            "",
            title="&nbsp;",
            head="<meta http-equiv=refresh content=\"5; URL='/?bm-verify=AAQ'\"><script>"
            "xhr.open('POST','/_sec/verify?provider=interstitial',false)</script>",
        ),
        ["/_sec/verify?provider=interstitial"],
    ),
    "akamai denial": (
        "an Akamai block",
        "<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY><H1>Access Denied</H1>\nNo"
        " permission for this on this server.<P>\nReference&#32;&#35;18&#46;2d35&#46;17</BODY>",
        ["Access Denied", "Reference&#32;&#35;"],
    ),
    "imperva frame": (
        "an Imperva block",
        page(
            "<iframe id='main-iframe' src='/_Incapsula_Resource?CWUDNSAI=24'>Request"
            " unsuccessful. Incapsula incident ID: 1234-5678</iframe>",
            title="",
        ),
        ["id='main-iframe' src='/_Incapsula_Resource?"],
    ),
    "imperva script": (
        "an Imperva challenge",
        "<html>\n<head>\n<META NAME='robots' CONTENT='noindex,nofollow'>\n"
        "<script src='/_Incapsula_Resource?SWJIYLWA=5074a7'>\n</script>\n<body>\n</body></html>",
        ["src='/_Incapsula_Resource?", "noindex"],
    ),
    "imperva reese": (
        "an Imperva challenge",
        page(
            "<noscript>Please enable JavaScript</noscript>",
            title="認証中",
            head="<script>window.onProtectionInitialized=function(p){if(!p.cookieIsSet())"
            "{showBlockPage()}};</script>",
        ),
        ["onProtectionInitialized", "showBlockPage"],
    ),
    "imperva distil": (
        "an Imperva challenge",
        page(
            "<div id='distilIdentificationBlock'></div><p>Something about your browser made us"
            " think you were a bot.</p>",
            title="Pardon Our Interruption",
        ),
        ["Pardon Our Interruption", "distil"],
    ),
    "datadome script": (
        "a DataDome challenge",
        page(
            "<p id=cmsg>Please enable JS and disable any ad blocker</p><script>var dd={'rt':'c'}"
            "</script><script src='https://ct.captcha-delivery.com/c.js'></script>",
            title="orchard.example",
        ),
        ["src='https://ct.captcha-delivery.com/"],
    ),
    "datadome frame": (
        "a DataDome challenge",
        page("<iframe src='https://geo.captcha-delivery.com/captcha/?cid=AH'></iframe>"),
        ["src='https://geo.captcha-delivery.com/"],
    ),
    "human captcha": (
        "a HUMAN challenge",
        page("<h1>Press and hold, please</h1><div id='px-captcha'></div>"),
        ["id='px-captcha'"],
    ),
    "human title": (
        "a HUMAN challenge",
        page(
            "<script>window._pxAppId='PX1';window._pxUuid='a-b'</script>",
            title="Access to this page has been denied",
        ),
        ["Access to this page has been denied", "_pxAppId"],
    ),
    "kasada": (
        "a Kasada challenge",
        page("<script>window.KPSDK={};</script><script src='/149e/2d20/ips.js?x=1'></script>"),
        ["KPSDK", "/ips.js"],
    ),
    "sucuri cookie": (
        "a Sucuri challenge",
        "<html><title>You are being redirected...</title><noscript>Javascript is required."
        "</noscript><script>var s={},sucuri_cloudproxy_js='',S='cz0i';</script></html>",
        ["sucuri_cloudproxy_js"],
    ),
    "sucuri block": (
        "a Sucuri block",
        page(
            "<a href='https://sucuri.net/?utm_source=firewall_block'>Back</a><h1>Blocked</h1>",
            title="Sucuri WebSite Firewall - Access Denied",
        ),
        ["Sucuri WebSite Firewall - Access Denied", "sucuri.net"],
    ),
    "ddos-guard": (
        "a DDoS-Guard challenge",
        page("<script src='/.well-known/ddos-guard/js-challenge/index.js'></script>"),
        ["/.well-known/ddos-guard/js-challenge/"],
    ),
    "ddos-guard captcha": (
        "a DDoS-Guard captcha",
        page("<script src='/.well-known/ddos-guard/ddg-captcha-page/index.js'></script>"),
        ["/.well-known/ddos-guard/ddg-captcha-page/"],
    ),
    "anubis": (
        "an Anubis challenge",
        page(
            "<img src='/.within.website/x/cmd/anubis/static/img/pensive.webp?v=1.2'>"
            "<p>Loading...</p><details>" + 25 * "<p>Why you see this, and what it is for.</p>",
            title="Making sure you&#39;re not a bot!",
        ),
        ["/.within.website/x/cmd/anubis/"],
    ),
    "siteground": (
        "a SiteGround challenge",
        '<html><head><meta http-equiv="refresh" content="0;/.well-known/sgcaptcha/?r=%2F"></meta>',
        ["/.well-known/sgcaptcha"],
    ),
    "alibaba cookie": (
        "an Alibaba Cloud challenge",
        "<html><script>var arg1='3A5F';setCookie('acw_sc__v2', x);location.reload()</script>",
        ["arg1=", "acw_sc__v2"],
    ),
    "alibaba slider": (
        "an Alibaba Cloud captcha",
        page("<script>location='//orchard.example/_____tmd_____/punish?x5=1'</script>"),
        ["/_____tmd_____/"],
    ),
    "turnstile": (
        "a Turnstile and nothing else",
        page("<p>One moment</p><div class='cf-turnstile' data-sitekey=0x4></div>"),
        ["class='cf-turnstile'"],
    ),
    "hcaptcha": (
        "an hCaptcha and nothing else",
        page("<form><div class='h-captcha' data-sitekey=1></div><button>Go on</button></form>"),
        ["class='h-captcha'"],
    ),
    "recaptcha": (
        "a reCAPTCHA and nothing else",
        page(
            "<form action=/check method=post><input type=hidden name=to value=/a>"
            "<div class='g-recaptcha' data-sitekey=6L></div><input type='submit'></form>"
        ),
        ["class='g-recaptcha'"],
    ),
}
CAPTCHAS = ("turnstile", "hcaptcha", "recaptcha")
TITLED = ("cloudflare title", "cloudflare block", "akamai denial", "imperva distil")
TITLED += ("human title", "sucuri block")


# Walls told by a header


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("a Cloudflare challenge", "cf-mitigated", "challenge"),
        ("a Vercel challenge", "x-vercel-mitigated", "challenge"),
        ("an AWS WAF challenge", "x-amzn-waf-action", "challenge"),
        ("an AWS WAF captcha", "x-amzn-waf-action", "captcha"),
        ("a SiteGround challenge", "sg-captcha", "challenge"),
    ],
)
def test_a_header_says_that_this_is_no_page(words, name, value):
    for status in (200, 202, 403, 405, 429, 503):
        assert wall(page(NEWS), status=status, headers={"server": "x", name: value}) == words
    assert wall("", headers={name: f" {value.upper()} "}) == words
    for other in ("", "block", f"no-{value}"):
        assert wall("", status=403, headers={name: other}) is None
    assert wall("", status=403, headers={f"x-{name}": value, "server": value}) is None


@pytest.mark.parametrize(
    ("words", "name", "status"),
    [("a DataDome challenge", "x-datadome", 403), ("a Kasada challenge", "x-kpsdk-ct", 429)],
)
def test_what_pages_carry_too_says_so_with_one_status_only(words, name, status):
    for value in ("protected", "02Wd", ""):
        assert wall("", status=status, headers={name: value}) == words
        for other in (200, 304, 402, 404, 428, 430, 503, 832 - status):
            assert wall("", status=other, headers={name: value}) is None
    assert wall("", status=status) is None


# Walls told by marks


@pytest.mark.parametrize("name", WALLS)
def test_a_wall_is_known_by_its_marks(name):
    words, markup, marks = WALLS[name]

    for status in (200, 202, 403, 429, 503):
        assert wall(markup, status=status) == words
    assert wall(markup.replace("'", '"').swapcase()) == words
    assert wall(markup + " " * START) == words
    for mark in marks:
        assert mark in markup
        assert wall(markup.replace(mark, "")) is None


@pytest.mark.parametrize("name", WALLS)
def test_a_page_with_the_marks_of_a_wall_is_none_when_it_says_something(name):
    _, markup, _ = WALLS[name]

    assert wall(markup + NEWS + NEWS) is None


@pytest.mark.parametrize("name", WALLS)
def test_what_an_article_quotes_is_no_wall(name):
    _, markup, marks = WALLS[name]
    code = markup.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    assert wall(page(f"<h1>Blocked again</h1><pre>{code}</pre>")) is None
    assert wall(page(f"<p>{' '.join(marks)}</p>", title="")) is None
    assert wall(page(f"<p>{' '.join(marks)}</p><script src=/site.js></script>")) is None
    assert wall(code) is None


@pytest.mark.parametrize("name", TITLED)
def test_a_title_is_the_whole_one(name):
    _, markup, (title, *_) = WALLS[name]

    for more in (f"{title}?", f"About {title}"):
        assert wall(markup.replace(title, more, 1)) is None
    assert wall(f"<title>Orchard Notes</title>{markup}") is None


def test_marks_with_a_title_may_stand_anywhere():
    for name in ("cloudflare title", "cloudflare block", "human title", "sucuri block"):
        words, _, (title, mark) = WALLS[name]

        assert wall(page(f"<p>{mark}</p>", title=title)) == words


def test_each_mark_is_looked_for_by_itself():
    both = WALLS["kasada"][1] + WALLS["ddos-guard"][1]

    assert wall(both) == "a Kasada challenge"
    assert wall(both.replace("/ips.js", "<b>/ips.js</b>")) == "a Kasada challenge"
    assert wall(page("<p>/ips.js<p>", head="<script>KPSDK</script>")) is None
    assert wall(page("<p>KPSDK<p>", head="<script src=/ips.js></script>")) is None
    assert wall(page("<p>KPSDK<p>", head="<script>KPSDK</script><b class=/ips.js>")) == (
        "a Kasada challenge"
    )
    assert wall(page("KPSDK /ips.js") + WALLS["ddos-guard"][1]) == "a DDoS-Guard challenge"
    assert wall(WALLS["sucuri block"][1].replace("</head>", "<script>_cf_chl_opt</script>")) == (
        "a Cloudflare challenge"
    )


@pytest.mark.parametrize(
    "markup",
    [
        # Cloudflare puts its detection into every page.
        page(f"{MENU}<script>a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'</script>"),
        page("<div id=root></div><script src='/cdn-cgi/challenge-platform/h/g/scripts/jsd/a.js'>"),
        page("<div id='cf-error-details'>521</div>", title="x | 521: Web server is down"),
        page("<p>An essay about waiting.</p>", title="Just a moment..."),
        page("<p>" + "Cloudflare's page says _cf_chl_opt. " * 9 + "</p>", title="Just a moment..."),
        # So do the others.
        page("<div id=root></div><script src='/_Incapsula_Resource?SWJIYLWA=719d&ns=2'></script>"),
        page("<iframe id='main-iframe' src='/app'></iframe><script src='/_Incapsula_Resource?a'>"),
        page(
            "Hi",
            head="<meta name=robots content=noindex><script src='/_Incapsula_Resource?a'></script>",
        ),
        page("<div id=app></div>", head="<script src='https://js.datadome.co/tags.js'></script>"),
        page(
            "<div id=app></div>",
            head="<meta http-equiv=Content-Security-Policy content=\"frame-src"
            " https://geo.captcha-delivery.com/ https://ct.captcha-delivery.com/\">",
        ),
        page("<script>window._pxAppId='PX1'</script><div id=app></div>"),
        page("<script src='https://check.ddos-guard.net/check.js'></script><div id=app></div>"),
        page("<script src='/149e/2d20/p.js'></script><script>KPSDK.configure([])</script>"),
        page("<script src='https://1a.token.awswaf.com/challenge.js'></script><div id=app></div>"),
        page("<script src='https://www.google.com/recaptcha/api.js?render=6L'></script><p>Hi</p>"),
        # A short page with a form that a captcha guards.
        page("<input name=q><div class='g-recaptcha' data-sitekey=6L></div>"),
        page("<input type=email name=a><div class='h-captcha'></div><button>Subscribe</button>"),
        page("<input class=b type='text'><div class='cf-turnstile'></div>"),
        page("<textarea name=t></textarea><div class='g-recaptcha'></div>"),
        page("<select><option>1</select><div class='g-recaptcha'></div>"),
        page("<p>class='g-recaptcha' is how the widget is called</p>"),
        "",
        "plain text about px-captcha and sucuri_cloudproxy_js",
    ],
)  # fmt: skip
def test_ordinary_pages_are_no_walls(markup):
    assert wall(markup) is None
    assert wall(markup, status=403) is None


@pytest.mark.parametrize("name", CAPTCHAS)
def test_a_captcha_is_a_wall_when_nothing_can_be_filled_in(name):
    words, markup, _ = WALLS[name]

    for kind in ("hidden", "submit", "button", "image"):
        for field in (f"<input type={kind} name=a>", f"<input name=a type='{kind}'>"):
            assert wall(markup + field) == words
    for field in (
        "<input>",
        "<input type=text>",
        "<input name=hidden>",
        "<input name='a' b=submit>",
    ):
        assert wall(markup + field) is None
    for field in ("<textarea>", "<select>", "<TEXTAREA rows=2>"):
        assert wall(markup + field) is None
    assert wall(f"{markup}<!-- <textarea> --><script>'<select>'</script>") == words


def test_a_wall_with_a_field_is_one():
    for name in ("siteground", "human captcha", "cloudflare title"):
        words, markup, _ = WALLS[name]
        assert wall(markup + "<input name=answer><textarea></textarea>") == words


def filled(markup, size):
    """Return a page with so many characters of text; tags and what is hidden add none."""
    hidden = "<script>text</script ><style>text</style><!-- <p>text --><p title=text>\n \t</p>"
    head, tail = markup.split("|")
    text = "é < " + "ab \n" * (size // 2)
    said = text.replace(" ", "").replace("\n", "")[:size]
    assert len(said) == size
    words = said.replace("ab", "ab \n ")
    return f"<title>text</title>{head}{hidden}{words}{hidden}{tail}"


@pytest.mark.parametrize(
    ("name", "most"), [("kasada", MAX_TEXT), ("anubis", MAX_TEXT), *[(n, 500) for n in CAPTCHAS]]
)
def test_a_wall_has_little_text(name, most):
    words, _, marks = WALLS[name]
    markup = "".join(f"<script src='{mark}'></script>" for mark in marks) + "|"
    if name in CAPTCHAS:
        markup = f"<div {marks[0]}>|</div>"

    assert MAX_TEXT == 3000
    assert MAX_CAPTCHA_TEXT == 500
    assert wall(filled(markup, most)) == words
    assert wall(filled(markup, most + 1)) is None


def test_imperva_adds_its_script_to_pages_so_that_a_wall_of_it_says_nothing():
    words, markup, _ = WALLS["imperva script"]

    assert wall(markup.replace("</body>", "<!-- . --> \n</body>")) == words
    assert wall(markup.replace("</body>", ".</body>")) is None


def test_text_is_hidden_up_to_the_end_of_its_element_or_of_the_page():
    words, markup, _ = WALLS["turnstile"]
    much = "a" * 600

    for hidden in (
        f"<script>{much}",
        f"<style media=print>{much}",
        f"<!-- {much}",
        f"<script>{much}</style>{much}</script>",
        f"<!--{much}-- >{much}<p>{much}-->",
        f"<script>{much}\n{much}</script\n>",
        f"<script>1</script {much}>",
    ):
        assert wall(markup + hidden) == words
    for shown in (
        f"<script>1</script>{much}",
        f"<style>1</style>{much}<style>2</style>",
        f"<!-- 1 -->{much}<!-- 2 -->",
        f"<scripts>{much}</scripts>",
    ):
        assert wall(markup + shown) is None


def test_marks_stand_in_the_first_64_kib():
    words, markup, _ = WALLS["anubis"]
    head = "<!--" + "x" * (START - len(markup.encode()) - 7) + "-->"

    assert START == 65_536
    assert wall(head + markup) == words
    mark = "<img src=/.within.website/x/cmd/anubis/"
    assert wall(" " * (START - len(mark)) + mark + ">") == words
    assert wall(" " * (START - len(mark) + 1) + mark + ">") is None


def test_no_wall_is_longer_than_256_kib():
    words, markup, _ = WALLS["anubis"]

    assert MAX_BODY == 262_144
    assert wall(markup.ljust(MAX_BODY)) == words
    assert wall(markup.ljust(MAX_BODY + 1)) is None
    assert wall(markup.ljust(MAX_BODY + 1), headers={"cf-mitigated": "challenge"}) is not None


@given(st.binary(max_size=200), st.sampled_from(sorted(WALLS)), st.integers(100, 599))
def test_any_bytes_are_judged(body, name, status):
    _, markup, _ = WALLS[name]

    assert decide_challenge(status, {}, body) is None
    assert decide_challenge(status, {}, b"\xff\xfe\x00" + markup.encode() + body) in (
        None,
        *(words for words, _, _ in WALLS.values()),
    )
    assert is_login_form(body, title=name, text_length=0, held_text_length=1) is False


# Login walls


LOGIN = page(
    "<form action=/session method=post><label>E-mail <input type=email name=user></label>"
    "<label>Password <input name=pass type='password' required></label><button>Go</button></form>"
)
SEARCH = page("<form action=/search><input type=search name=q></form><p>See you.</p>")


def asks(markup, *, title="Orchard Notes", left=99, held=200):
    return is_login_form(markup.encode(), title=title, text_length=left, held_text_length=held)


@pytest.mark.parametrize(
    "field",
    [
        "<input type=password>",
        "<input type='password'>",
        '<INPUT NAME="p" TYPE="PassWord"/>',
        "<input\n class=a\n type = password\n>",
        "<input type=password/>",
        "<div><input type=text><input type=password></div>",
    ],
)
def test_a_form_with_a_password_in_place_of_the_text_is_a_login(field):
    assert asks(page(f"<form>{field}</form>"))
    assert asks(page(f"<form></form><form action=/in><p>{field}"))
    for elsewhere in (
        field,
        f"{field}<form></form>",
        f"<form></form>{field}",
        f"<form><!-- {field} --></form>",
        f"<form><script>'{field}'</script></form>",
        f"<!-- <form> -->{field}",
        f"<forms>{field}</forms>",
    ):
        assert not asks(page(elsewhere))


@pytest.mark.parametrize(
    "field",
    [
        "<input type=text name=password>",
        "<input type=text><p>type=password",
        "<input type='password-hint'>",
        "<input type=passwords>",
        "<input data-mytype=password>",
        "<inputs type=password>",
        "<input value='type' name=password>",
        "",
    ],
)
def test_a_form_without_a_password_is_no_login(field):
    assert not asks(page(f"<form>{field}</form>"))


def test_a_login_leaves_less_than_half_of_the_text():
    for left, held, found in ((100, 200, False), (99, 200, True), (0, 1, True), (0, 0, False)):
        assert asks(LOGIN, left=left, held=held) is found
        assert asks(SEARCH, title="Sign in", left=left, held=held) is found


SIGN_IN = [
    *["sign in", "sign-in", "signin", "log in", "log-in", "login", "log on", "logon"],
    *["please sign in", "please log in", "login required", "authentication required"],
    *["anmelden", "bitte anmelden", "einloggen", "inloggen", "logga in", "log ind", "logg inn"],
    *["connexion", "se connecter", "authentification", "autentificare"],
    *["iniciar sesión", "inicio de sesión", "iniciar sessão", "accedi"],
    *["kirjaudu", "kirjaudu sisään", "bejelentkezés", "giriş yap", "oturum aç", "đăng nhập"],
    *["logowanie", "zaloguj się", "přihlášení", "prihlásenie"],
    *["вход", "войти", "авторизация", "вхід", "увійти"],
    *["تسجيل الدخول", "התחברות", "登录", "登入", "登錄", "ログイン", "サインイン", "로그인"],
    *["sign in to orchard", "log in to continue", "login to your account"],
]


@pytest.mark.parametrize("words", SIGN_IN)
def test_a_title_that_says_sign_in_makes_any_form_a_login(words):
    for title in (
        words,
        words.capitalize(),
        f" {words} - Orchard",
        f"Orchard – {words}",
        f"Orchard — {words}\t",
        f"{words} | Orchard",
        f"Orchard|{words}",
        f"{words}: Orchard",
        f"Orchard · {words} · Home",
        f"{words} • Orchard",
        f"{words} ‹ Orchard — WordPress",
        f"Orchard › {words}",
        f"Orchard « {words}",
        f"Orchard » {words}",
    ):
        assert asks(SEARCH, title=title)
        assert not asks(page("<p>See you.</p>"), title=title)
        assert not asks(page("<!-- <form> --><script>'<form>'</script>"), title=title)
    for title in (f"how to {words}", f"{words}s", f"x{words}", f"{words}-page"):
        assert asks(SEARCH, title=title) is (" to " in words and title.startswith(words))


@pytest.mark.parametrize(
    "title", ["", "Orchard", "Login problems", "How to sign in to Orchard", "Sign into a choir"]
)
def test_other_titles_need_a_password(title):
    assert not asks(SEARCH, title=title)
    assert asks(LOGIN, title=title)


def test_a_login_is_looked_for_in_the_first_256_kib():
    field = "<form><input type=password>"

    for title, markup in (("Orchard", field), ("Sign in", "<form")):
        assert asks(" " * (MAX_BODY - len(markup)) + markup, title=title)
        assert not asks(" " * (MAX_BODY - len(markup) + 1) + markup, title=title)


# Collapsed pages


@pytest.mark.parametrize(
    ("left", "held", "found"),
    [
        (0, 500, True),
        (0, 499, False),
        (49, 500, True),
        (50, 500, False),
        (100, 1001, True),
        (100, 1000, False),
        (0, 0, False),
        (9000, 500, False),
    ],
)
def test_a_page_has_collapsed_when_less_than_a_tenth_is_left(left, held, found):
    assert MIN_COLLAPSE == 500
    assert is_collapsed(text_length=left, held_text_length=held) is found


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_what_grows_has_not_collapsed(left, held):
    found = is_collapsed(text_length=left, held_text_length=held)

    assert not (found and left >= held)
    assert not found or is_collapsed(text_length=left // 2, held_text_length=held)
    assert not found or is_collapsed(text_length=left, held_text_length=2 * held)


def test_what_two_runs_in_a_row_found_collapsed_the_third_believes():
    assert BELIEVED_AFTER == 2
    believed = [accepts_collapse(errors, age=0, pace=0) for errors in range(5)]
    assert believed == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("errors", "age", "found"),
    [(1, 10**6, False), (2, 199, False), (2, 200, True), (2, 201, True), (9, 100, False)],
)
def test_a_due_crawl_believes_after_the_time_of_two_daily_crawls(errors, age, found):
    assert accepts_collapse(errors, age=age, pace=100) is found


@pytest.mark.parametrize(
    ("length", "others", "found"),
    [
        (200, 0, False),
        (200, 1, True),
        (10_000, 2, True),
        (199, 0, False),
        (199, 1, False),  # two short texts may be equal by chance
        (199, 2, True),
        (0, 2, True),
    ],
)
def test_a_text_that_other_pages_got_in_the_same_run_replaces_none(length, others, found):
    assert MIN_REPEATED == 200
    assert is_repeated(text_length=length, others=others) is found


@pytest.mark.parametrize(
    ("sections", "compared"),
    [
        ([], ""),
        ([("Pears", "")], "Pears"),
        ([("Pears", "x" * 199)], "Pears\n" + "x" * 199),
        ([("Pears", "x" * 200)], "x" * 200),
        ([("Pears", "x" * 5_000)], "x" * 5_000),
        ([("Pears", "x" * 5_001)], "Pears\n" + "x" * 5_001),
        ([("", "a" * 99), ("Pears", ""), ("Plums", "b" * 100)], "a" * 99 + "\n" + "b" * 100),
        ([("", "a"), ("Pears", ""), ("Plums", "b")], "a\nPears\nPlums\nb"),
    ],
)
def test_headings_do_not_count_above_a_text_that_is_long_enough_for_a_notice(sections, compared):
    assert (MIN_REPEATED, MAX_REPEATED) == (200, 5_000)
    assert text_to_compare(sections) == compared


def shrunk(*texts, repeated=False):
    return [Waiting(n, text.encode(), True, repeated, 0) for n, text in enumerate(texts)]


def alike(count, *, first=100, text="1", clones=0):
    """Pages that got one text that another page got before them."""
    return [Waiting(first + n, text.encode(), False, True, clones) for n in range(count)]


def edits(pages, *, asked=0, bodies=0):
    return sorted(edits_among_waiting(pages, asked=asked, bodies=bodies))


def numbers(pages):
    return [page.no for page in pages]


@pytest.mark.parametrize(
    ("pages", "bodies", "found"),
    [
        (1, 1, True),
        (3, 3, True),
        (4, 4, False),
        (4, 399, False),
        (4, 400, True),
        (5, 499, False),
        (5, 500, True),
    ],
)
def test_few_pages_that_collapse_are_edits(pages, bodies, found):
    assert (FEW, EDITS) == (3, 100)
    waiting = shrunk(*map(str, range(pages)))
    assert edits(waiting, bodies=bodies) == (numbers(waiting) if found else [])


def test_two_pages_that_collapse_to_the_same_text_are_no_edits():
    assert edits(shrunk("1", "2"), asked=9_999, bodies=9_999) == [0, 1]
    assert edits(shrunk("1", "1"), asked=9_999, bodies=9_999) == []
    many = shrunk(*map(str, range(50)), "7")
    assert edits(many, asked=9_999, bodies=9_999) == []
    assert edits([*shrunk("a", "b", "b"), *alike(1)], asked=9_999, bodies=9_999) == []


@pytest.mark.parametrize(
    ("pages", "asked", "found"),
    [
        (1, 100, False),
        (1, 101, True),
        (2, 200, False),
        (2, 201, True),
        (19, 1_900, False),
        (19, 1_901, True),
        (20, 9_999, False),
    ],
)
def test_very_few_pages_with_texts_of_others_are_edits(pages, asked, found):
    assert MANY == 20
    waiting = alike(pages)
    assert edits(waiting, asked=asked) == (numbers(waiting) if found else [])


def test_all_that_wait_count_together():
    waiting = [*shrunk(*"abc"), *alike(16)]
    assert edits(waiting, asked=1_901) == numbers(waiting)
    assert edits([*waiting, *alike(1, first=500)], asked=9_999) == [0, 1, 2], "those that shrank"
    assert edits(waiting, asked=1_900) == [0, 1, 2]


def test_a_page_that_shrank_to_a_text_that_others_got_is_no_lone_edit():
    assert edits(shrunk("a", repeated=True)) == []
    assert edits(shrunk("a", repeated=True), asked=101) == [0]
    both = [*shrunk("a", "1"), *alike(1)]
    assert edits(both) == [], "one of those that wait has the text"
    assert edits(both, asked=301) == [0, 1, 100]


@pytest.mark.parametrize(
    ("clones", "found"), [(0, False), (1, True), (2, True), (3, True), (4, False)]
)
def test_up_to_three_pages_become_clones_of_one_that_stands(clones, found):
    waiting = alike(2, clones=clones)
    others = alike(5, first=200, text="2")
    assert edits([*waiting, *others]) == (numbers(waiting) if found else [])
    pair = [Waiting(n, b"1", True, True, clones) for n in range(2)]
    assert edits(pair, asked=9_999) == (numbers(pair) if found else []), "also if they shrank"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Request id 8f3ac2e1b7d04c55", "Request id 00b1f7a9c3e84d21"),
        ("Request id: deadbeef.", "Request id: 12345678."),  # no digit in one of many
        ("Id DEADBEEF!", "Id FACEB00C!"),
        ("Ray ID: 8f3ac2e1b7d04c55-FRA", "Ray ID: 7b91aa03ce21fd80-FRA"),
        ("(0f8fad5b-d9cb-469f-a165-70867728950e)", "(7c9e6679-7425-40de-944b-e07fc1f90ae7)"),
        ("Reference #18.4d9bd1b8.1700000000.abcd", "Reference #18.4d9bd1b8.1700000003.1a2b"),
        ("on 2026-11-28T07:14:03+01:00", "on 2026-11-28T07:14:04.5Z"),
        ("at 07:14:03, sorry", "at 9:05:41, sorry"),
        ("token aB3/xx_Yz+9=", "token q=/0"),
        ("seen /docs/a1/", "seen b2"),
        ("٣ pages", "٤ pages"),
        ("Part 1", "Part 2"),
    ],
)
def test_texts_that_differ_by_ids_times_and_numbers_are_one(first, second):
    assert first != second
    assert text_without_ids(first) == text_without_ids(second)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("Sold out.\nSee a.example/b", "Sold out.\nSee a.example/b"),
        ("a faced decade, added: fabacea", "a faced decade, added: fabacea"),  # up to seven
        ("fabacea-fabacea", "fabacea-fabacea"),
        ("ghijklmn", "ghijklmn"),
        ("第1章 桜", "第#章 桜"),  # words of a script without spaces stay
        ("No 7, no 8", "No #, no #"),
    ],
)
def test_the_words_of_a_text_stay(text, left):
    assert text_without_ids(text) == left


@given(st.text())
def test_a_text_without_ids_has_none(text):
    left = text_without_ids(text)

    assert text_without_ids(left) == left
    assert not any(letter.isdecimal() for letter in left)


@pytest.mark.parametrize(
    ("pages", "alike", "size", "found"),
    [
        (1, 1, 0, True),
        (30, 19, 900, True),
        (30, 20, 900, False),
        (1_000, 1, 900, True),
        (1_001, 1, 900, False),
        (1, 1, 67_108_864, True),
        (1, 1, 67_108_865, False),
    ],
)
def test_what_waits_is_bounded(pages, alike, size, found):
    assert (MAX_WAITING, MAX_WAITING_SIZE) == (1_000, 64 << 20)
    assert may_be_edits(pages, alike=alike, size=size) is found
