"""Globs, hidden names and types that select files."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.sources.listing.entries import ListingRules, Skip


@pytest.mark.parametrize(
    ("glob", "matched", "others"),
    [
        ("*", ["a", "a.md", "ü\n", "\udcff"], ["a/b"]),
        ("**", ["a", "a/b/c.md", "a\nb/c"], []),
        ("*.md", ["a.md", "ab.md"], ["a/a.md", "a.MD", "a.mdx", "amd", "a.md\n"]),
        ("**/*.md", ["a.md", "x/a.md", "x/y/a.md"], ["a.md/b", "x/a.txt"]),
        ("docs/**", ["docs/a", "docs/x/y"], ["docs", "docs2/a", "x/docs/a"]),
        ("docs/", ["docs/a", "docs/x/y"], ["docs", "x/docs/a"]),
        ("**/docs/**", ["docs/a", "x/docs/y/a", "x/docs/docs"], ["docs", "x/docs", "xdocs/a"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c/c"], ["a/c", "a/b", "b/c", "a/bc"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("a*b*c", ["abc", "aXbXbXc", "abcc"], ["ab", "acb", "a/bc"]),
        ("a.b", ["a.b"], ["axb", "A.b"]),
        ("(x)+|^$", ["(x)+|^$"], ["x"]),
        ("Ü*", ["Üb"], ["üb"]),
        ("**/**/a", ["a", "x/a"], ["xa"]),
    ],
)
def test_a_glob_covers_the_whole_path(glob, matched, others):
    rules = ListingRules(include=(glob,), skipped_extensions=frozenset())
    assert [path for path in matched if rules.refusal(path) is not None] == []
    for path in others:
        assert rules.refusal(path) == "none of include matches it"
        assert rules.skip(path) is Skip.NOT_INCLUDED


@pytest.mark.parametrize(
    ("glob", "folders", "entered", "files"),
    [
        ("build", ["build"], ["builds", "x/build"], ["build", "build/a", "build/x/a"]),
        ("build/", ["build"], ["x/build"], ["build/a"]),
        ("build/**", ["build"], ["x/build"], ["build/a", "build/x/a"]),
        ("**/node", ["node", "x/node", "x/node/y"], ["nodes"], ["x/node/y/a"]),
        ("**/*.tmp", ["a.tmp"], ["a"], ["x/a.tmp", "x/a.tmp/b"]),
        ("docs/*", ["docs/x"], ["x"], ["docs/a"]),
        ("docs/*.md", [], ["docs", "docs/x"], ["docs/a.md"]),
    ],
)
def test_a_folder_that_is_excluded_is_not_entered_and_has_no_file(glob, folders, entered, files):
    rules = ListingRules(exclude=(glob,))
    assert {rules.skip_folder(path) for path in folders} <= {Skip.EXCLUDED}
    assert {rules.skip_folder(path) for path in entered} == {None}
    assert {rules.refusal(path) for path in files} == {
        "one of exclude matches it, or a folder above it"
    }


def test_a_file_is_not_excluded_like_a_folder_of_its_name():
    assert ListingRules(exclude=("build/",)).refusal("build") is None


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        (".a", True), ("x/.a", True), (".x/a", True), ("x/.y/z/a", True), ("..a", True),
        ("...", True), ("a.b", False), ("x./a", False), ("../x", False), ("./x", False),
        ("x/..", False),
    ],
)  # fmt: skip
def test_names_that_begin_with_a_dot_are_hidden(path, hidden):
    refusal = ListingRules().refusal(path)
    assert refusal == (
        "its name, or that of a folder above it, begins with a dot" if hidden else None
    )
    assert (ListingRules().skip_folder(path) is Skip.HIDDEN) is hidden
    assert ListingRules(hidden=True).refusal(path) is None
    assert ListingRules(hidden=True).skip_folder(path) is None


def test_types_without_text_are_refused_by_name():
    rules = ListingRules()
    assert rules.refusal("a/b.PNG") == "files of type .png are skipped"
    assert rules.skip("b.tar.gz") is Skip.TYPE
    assert rules.refusal("png") is None
    assert rules.refusal("x.png/readme") is None
    assert ListingRules(skipped_extensions=frozenset({"md"})).skip("a.md") is Skip.TYPE


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("", r"write \*\* for all files"),
        ("/srv/docs", "write globs relative to the root"),
        ("a?", r"'\?'.*write \* in its place"),
        ("*.{md,txt}", "one glob for each alternative"),
        ("[ab]", "has the character"),
        ("a\\b", "has the character"),
        ("a\0", "has the character"),
        ("a//b", "write the path below the root"),
        ("../a", "write the path below the root"),
        ("./a", "write the path below the root"),
        ("a**b", r"write \*\* alone between slashes"),
        ("***", r"write \*\* alone between slashes"),
    ],
)
@pytest.mark.parametrize("field", ["include", "exclude"])
def test_a_wrong_glob_is_an_error_with_its_remedy(glob, why, field):
    with pytest.raises(ValueError, match=why):
        ListingRules(**{field: (glob,)})


def reference(glob: str) -> "re.Pattern[str]":
    """The same by an expression that tries every way."""
    glob = glob + "**" if glob.endswith("/") else glob
    text = ""
    names = glob.split("/")
    for place, name in enumerate(names):
        last = place == len(names) - 1
        if name == "**":
            text += ".*" if last else "(?:[^/]*/)*"
        else:
            text += "[^/]*".join(map(re.escape, name.split("*"))) + ("" if last else "/")
    return re.compile(text, re.DOTALL)


GLOBS = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "*b", "a*b*a", "*a*b*"]), min_size=1,
                 max_size=5).map("/".join)  # fmt: skip
PATHS = st.lists(st.text("ab", max_size=4), min_size=1, max_size=6).map("/".join)


@given(GLOBS, PATHS)
def test_a_glob_matches_what_any_way_of_reading_it_matches(glob, path):
    rules = ListingRules(include=(glob,), hidden=True)
    assert (rules.skip(path) is None) == (reference(glob).fullmatch(path) is not None)


@given(GLOBS, PATHS)
def test_exclude_covers_a_path_or_any_folder_above_it(glob, path):
    rules = ListingRules(exclude=(glob,), hidden=True)
    names = path.split("/")
    above = ["/".join(names[:n]) for n in range(1, len(names))]
    whole = reference(glob).fullmatch
    expected = whole(path) or any(whole(folder) or whole(f"{folder}/") for folder in above)
    if expected:
        assert rules.skip(path) is Skip.EXCLUDED
    elif rules.skip(path) is not None:  # an empty name of a store's key is a folder, too
        assert "" in names


def test_no_name_makes_a_glob_slow():
    rules = ListingRules(include=("**/" + "*a" * 20 + "/**/" + "*a" * 20 + "b",))
    path = "/".join(["a" * 250] * 15)
    before = time.process_time()
    assert rules.refusal(path) is not None
    assert time.process_time() - before < 1


def test_the_fingerprint_follows_what_the_rules_decide():
    base = ListingRules(include=("a", "b"), exclude=("c",))
    assert base.fingerprint_parts() == ListingRules(("b", "a", "a"), ("c",)).fingerprint_parts()
    others = [
        ListingRules(("a",), ("c",)),
        ListingRules(("a", "b")),
        ListingRules(("a", "b"), ("c",), hidden=True),
        ListingRules(("a", "b"), ("c",), follow_symlinks=True),
        ListingRules(("a", "b"), ("c",), skipped_extensions=frozenset()),
    ]
    seen = [str(rules.fingerprint_parts()) for rules in (base, *others)]
    assert len(set(seen)) == len(seen)
