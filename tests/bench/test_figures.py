"""How figures are judged, joined and drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from benchmarks import against, alternation, documents, drawing
from benchmarks.against import Found
from benchmarks.drawing import Bar, Panel
from benchmarks.figures import Base, Better, Figure, as_table, milliseconds, rate


def test_a_figure_with_a_base_is_judged_by_its_ratio():
    base = Base(name="bare sqlite3", value=1_000)
    enough = rate("append", "msg", 700, base, 0.6)
    slow = rate("append", "msg", 500, base, 0.6)
    assert (enough.ratio, enough.meets) == (0.7, True)
    assert slow.meets is False
    assert "Missed: append: 0.5 × bare sqlite3, ≥ 0.6 ×" in as_table([enough, slow])


def test_a_figure_without_a_base_is_judged_by_its_value():
    figure = Figure(name="modules", value=1, unit="modules", target=0)
    assert figure.ratio is None
    assert figure.meets is False
    assert milliseconds("only shown", 1).meets is None


def _plain(name: str, value: float, better: Better = Better.LOWER) -> dict[str, Any]:
    return {"name": name, "unit": "ms", "better": better.value, "value": value}


def _found(before: list[float], after: list[float], better: Better = Better.LOWER) -> Found:
    found: Found = {}
    for value in before:
        against.add(found, [_plain("x", value, better)], is_before=True)
    for value in after:
        against.add(found, [_plain("x", value, better)], is_before=False)
    return found


def test_a_figure_is_slower_if_every_round_is():
    assert against.slower(_found([1.0, 1.1, 1.2], [1.3, 1.4, 1.5]))
    assert not against.slower(_found([1.0, 1.1, 1.4], [1.3, 1.4, 1.5]))


def test_a_small_change_is_noise():
    assert not against.slower(_found([1.00, 1.01], [1.02, 1.03]))


def test_a_lower_rate_is_slower():
    assert against.slower(_found([10, 11], [5, 6], Better.HIGHER))
    assert not against.slower(_found([5, 6], [10, 11], Better.HIGHER))


def test_figures_are_joined_by_name_and_unit():
    found: Found = {}
    other = {**_plain("x", 5), "unit": "msg/s"}
    against.add(found, [_plain("x", 1), _plain("gone", 1)], is_before=True)
    against.add(found, [_plain("x", 2), other], is_before=False)
    text = against.report("main", found)
    assert "Not measured now: gone" in text
    assert "Not measured main: x" in text
    assert "Slower: x: 1 → 2 ms" in text
    assert "1 of 1 figures got slower" in text


def test_the_least_of_all_rounds_counts_and_the_first_only_warms_up():
    costs = iter([0.0, 3.0, 2.0, 4.0])
    assert alternation.by_turns({"way": lambda: next(costs)}, 3) == {"way": 2.0}


def test_quick_operations_are_repeated_and_slow_ones_are_not():
    assert alternation.fitting(0.0) == alternation.MOST
    assert alternation.fitting(alternation.TRY / 10) == 10
    assert alternation.fitting(60.0) == 1


def test_plots_are_whole_documents():
    lines = {"before": [(1_000.0, 0.3), (1_000_000.0, 300.0)], "now": [(1_000.0, 0.3)]}
    plot = drawing.panels([Panel(title="a < b", lines=lines)], x="size", y="ms")
    root = ET.fromstring(plot)
    names = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"a < b", "1 M"} <= set(names)
    bars = ET.fromstring(drawing.bars([Bar(title="x", times=90, note="y")], title="z"))
    assert "90 ×" in [element.text for element in bars.iter()]


def test_the_table_shows_a_full_and_the_largest_store_of_one_owner():
    before = {
        "find: 1,000 sessions, one owner": 0.5,
        "find: 10,000 sessions, one owner": 5.0,
        "find: 1,000,000 sessions, one owner": 400.0,
        "find: 1,000,000 sessions, 1,000 owners": 9.0,
    }
    text = documents.table(before, {})
    assert text.splitlines()[-1] == "| find | 5 | 400 | 80 × |  |  |  |"
