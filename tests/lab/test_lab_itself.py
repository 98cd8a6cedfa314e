"""What a story in the lab costs, and that it is told as the lab's manual says."""

from tests.lab.lab import Lab, page


def test_a_page_that_is_lost_is_removed_and_comes_back(lab: Lab):
    others = [f"/other/{n}" for n in range(12)]
    lab.pages |= {path: page(path, text=f"filler {path}") for path in others}
    lab.pages["/"] = page("Home", "/a", *others)
    lab.pages["/a"] = attic = page("A", "/a/b", text="treasure in the attic")
    lab.pages["/a/b"] = page("B", text="the attic stairs")
    ran = lab.run()
    assert (ran.status, ran.complete, ran.requests) == (0, True, 15)
    assert lab.hits("treasure") == ["/a"]
    del lab.pages["/a"]

    for count in (1, 2, 3):
        lab.after(days=1)
        ran = lab.run()
        assert ran.removed == (count == 3), ran
        assert lab.conditional("/other/3") == [True]
        assert lab["/a"]["lostCount"] == (count if count < 3 else 0)

    assert lab.rules() == {"/a": "gone"}
    lab.pages["/a"] = attic
    lab.run()
    assert lab.words("/a") == ["new"]
