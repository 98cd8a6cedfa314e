"""The progress of whole runs: samples, and the pages that are stored at their end."""

from tests.lab.lab import Lab, page


def test_each_run_has_its_begin_and_end(lab: Lab):
    """Both are of one second here, so that the end takes the place of the begin."""
    lab.pages |= {"/": page("Home", "/a", "/gone"), "/a": page("A", text="treasure")}
    lab.run()
    lab.after(days=1)
    del lab.pages["/a"]
    lab.run()

    ends = lab.rows("SELECT no, visits, 0, requests, not_modified FROM run ORDER BY no")
    for run, *counts in ends:
        samples = lab.rows(
            "SELECT visits, queued, requests, not_modified, failed FROM run_sample"
            f" WHERE run = {run} ORDER BY at"
        )
        assert list(samples[-1][:4]) == counts
        assert samples[-1][4] == run  # pages that failed
    assert lab.rows("SELECT held FROM run ORDER BY no") == [(2,), (2,)]  # the last copy of /a
