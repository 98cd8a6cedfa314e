"""Texts of sites in tables for spreadsheets."""

import pytest

from smartcrawl.reports.tables import text_for_spreadsheet
from smartcrawl.run.library.report import spreadsheet_of_run_maps


@pytest.mark.parametrize("sign", "=+-@")
@pytest.mark.parametrize("before", [";", "\t", "\r", "\n", "\r\n"])
def test_a_formula_is_text_wherever_a_cell_may_begin(sign: str, before: str):
    """ATT-63."""
    assert text_for_spreadsheet(f"a{before}{sign}1") == f"a{before}'{sign}1"
    assert text_for_spreadsheet(f"a{before}b{sign}1") == f"a{before}b{sign}1"
    assert text_for_spreadsheet(f"{sign}1;{sign}2") == f"'{sign}1;'{sign}2"
    assert text_for_spreadsheet(f"{before.strip(';')}{sign}1").startswith("'")


def test_a_map_for_spreadsheets_has_no_formula_in_the_middle_of_a_cell():
    assert spreadsheet_of_run_maps(b"name\r\na;=1\r\n") == b"name\r\na;'=1\r\n"
