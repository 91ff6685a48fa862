"""The page itself: text stays text, figures have words, nothing is fetched, doubts are said."""

import base64
import hashlib
import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustcf.report import Report, render
from robustcf.report.content import (
    Advice,
    Customer,
    Doubts,
    Group,
    Lever,
    Population,
    Row,
    Since,
    Survival,
    Use,
)
from robustcf.report.doubts import not_proved
from robustcf.report.method_line import Certificates, Estimate, MethodLine, Outcomes, Validity
from robustcf.report.svg import ticks
from robustcf.report.verdict import verdict, warnings

EVIL = "</script></style></title><script>document.title=1</script><img src=x onerror=alert(1)>\"'&amp;{{7*7}}"


class Page(HTMLParser):
    """Elements with their attributes, and the text of the body."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def method(title: str, naive: bool, validity: float, distance: float) -> MethodLine:
    return MethodLine(
        title=title,
        naive=naive,
        alpha=None if naive else 0.05,
        threshold=0.5 if naive else 0.586,
        statuses={"optimal": 40, "no_recourse": 2},
        outcomes=Outcomes(title, 40, 2, 0),
        distance=Estimate(distance, distance - 0.01, distance + 0.01),
        changed=2.0,
        pairs=40,
        distance_paired=distance,
        naive_paired=0.04,
        predicted=0.99,
        validity=(
            Validity(
                "same-data",
                Estimate(validity, validity - 0.02, validity),
                Estimate(validity - 0.01, validity - 0.03, validity - 0.01),
                True,
            ),
        ),
        seconds_median=0.02,
        seconds_p95=1.5,
        promises=not naive,
    )


def content() -> Report:
    naive, robust = method("Naive", True, 0.55, 0.04), method("Direct-SAA, α = 0.05", False, 0.98, 0.08)
    groups = tuple(
        Group("region", name, m.title, 50, n, n, 0, m.distance, m.validity[0].all)
        for name, n in (("north", 33), ("island", 9))
        for m in (naive, robust)
    )
    people = Population(
        name="customers",
        seen=100,
        favourable=57,
        invalid=1,
        denied=42,
        any=Outcomes("any change", 41, 1, 0),
        strict=robust.outcomes,
        headline=robust.title,
        methods=(naive, robust),
        levers=(Lever("Savings", (Use("Naive", 30, 40, "+100 EUR"), Use(robust.title, 20, 40, "a → b"))),),
        groups=groups,
    )
    advice = Advice("Naive", "optimal", None, (("Savings", "0 EUR", "100 EUR"),), 0.1, 0.51, 0.5, 0.0, 0.9)
    row = Row("K-1", "customers", "Naive", "timeout", "the time was up", 60.0, 12, None, "engine")
    return Report(
        kind="audit",
        run="runs/tonight",
        made="2026-01-01 00:00 UTC",
        state="complete",
        target="1",
        populations=(people,),
        customers=tuple(Customer(f"K-{i}", "customers", 0.4, (("sex", "f"),), (advice,)) for i in range(12)),
        denied=42,
        slow=(row,),
        failed=(row,),
        failed_total=3,
        doubts=Doubts(timeout=3, measured=True, forests=20, validity_interval="Wilson"),
        since=Since(
            "runs/last",
            None,
            (("forest", False), ("schema", True), ("data", True)),
            (Survival("Naive", 40, 31, Estimate(0.775, 0.6, 0.9)),),
            3,
            4,
            {"new": 1, "gone": 2, "changed": 3, "unchanged": 4},
            (("favourable", "has recourse", 2),),
            "Naive",
            (("seed", "0", "1"),),
            (("Naive", Estimate(0.1), Estimate(0.2), Estimate(0.5), Estimate(0.6)),),
        ),
        settings=(("seed", "1"),),
        hashes=(("forest", "ab12"),),
        versions=(("numpy", "2.0"),),
    )


def with_text(value: Any, text: str) -> Any:
    """The same value with every piece of text replaced, except words that mean something to us."""
    ours = {"audit", "complete", "optimal", "timeout", "forest", "schema", "data"}
    if isinstance(value, str):
        return value if value in ours else text + value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: with_text(getattr(value, f.name), text) for f in fields(value)})
    if isinstance(value, tuple):
        return tuple(with_text(v, text) for v in value)
    return value


def test_no_text_from_anywhere_becomes_markup() -> None:
    plain, evil = Page(render(content())), Page(render(with_text(content(), EVIL)))
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in plain.elements]
    assert [sorted(a) for _, a in evil.elements] == [sorted(a) for _, a in plain.elements]
    assert "".join(evil.text).count(EVIL) > 30


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_customers_name_reads_as_it_was_written(name: str) -> None:
    report = content()
    page = Page(render(replace(report, customers=(replace(report.customers[0], name=name),))))
    assert name in page.text


def test_the_page_names_no_other_resource() -> None:
    page = Page(render(content()))
    ids = {a["id"] for _, a in page.elements if "id" in a}
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action", "data", "poster"} & attributes.keys(), tag
        assert not any(name.startswith("on") for name in attributes), tag
        address = attributes.get("href")
        assert address is None or address == "data:," or (address or "")[1:] in ids
    assert "@import" not in render(content())
    assert "url(" not in render(content())


def test_the_policy_admits_this_style_and_this_script_only() -> None:
    html = render(content())
    policy = next(a["content"] or "" for a in Page(html).all("meta") if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.S)
        assert inside
        for text in inside:
            assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_every_figure_is_named_described_and_repeated_as_a_table() -> None:
    html = render(content())
    drawings = re.findall(r"<figure>.*?</figure>", html, re.S)
    assert len(drawings) == 7
    names = set()
    for drawing in drawings:
        page = Page(drawing)
        (image,) = [a for a in page.all("svg") if a.get("role") == "img"]
        title, description = (image["aria-labelledby"] or "").split()
        assert {title, description} <= {a.get("id") for _, a in page.elements}
        assert len(re.findall(r"<desc[^>]*>[^<]{20,}</desc>", drawing)) == 1
        assert page.all("details")
        assert len(page.all("tr")) >= 2
        names.add(title)
    assert len(names) == len(drawings)


def test_no_id_is_used_twice() -> None:
    ids = [a["id"] for _, a in Page(render(content())).elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_small_groups_are_marked() -> None:
    html = render(content())
    rows = [r for r in re.findall(r"<tr.*?</tr>", html, re.S) if ">island<" in r or ">north<" in r]
    marked = {("island" in r, "small" in r) for r in rows}
    assert marked == {(True, True), (False, False)}
    assert 'class="hollow' in html


@pytest.mark.parametrize(
    ("doubts", "said"),
    [
        (Doubts(feasible=7, worst_gap=0.25), ("Not proved nearest.", "7 rows", "25.0 %")),
        (Doubts(feasible=7, kept=5), ("5 of them were copied from the previous run",)),
        (Doubts(timeout=2), ("2 rows reached the time limit",)),
        (Doubts(error=2), ("Errors.",)),
        (Doubts(heuristic=4), ("proves nothing",)),
        (Doubts(relaxed=4), ("plausibility condition",)),
        (Doubts(unverified=1), ("Do not use them",)),
        (Doubts(measured=False), ("Validity was not measured.",)),
        (Doubts(measured=True, forests=20), ("20 retrained forests",)),
        (Doubts(soft=True), ("approximation",)),
        (Doubts(certified=36), ("36 rows are certified.", "exact values of the point")),
        (Doubts(validity_interval="Wilson over pairs"), ("Wilson over pairs",)),
        (Doubts(), ("All answers of this run are proved.",)),
    ],
)
def test_what_is_not_proved_is_said(doubts: Doubts, said: tuple[str, ...]) -> None:
    text = " ".join(" ".join(pair) for pair in not_proved(replace(content(), doubts=doubts)))
    for words in said:
        assert words in text
    assert ("All answers of this run are proved." in text) == (said[0].startswith("All") or not _open(doubts))


def _open(d: Doubts) -> bool:
    return bool(d.feasible or d.timeout or d.error or d.heuristic or d.relaxed or d.unverified)


def test_an_unfinished_run_says_so_on_top() -> None:
    report = replace(content(), state="running")
    assert "run not complete: running" in render(report)
    assert not_proved(report)[0][0] == "The run is not complete."


def test_the_verdict_adds_up() -> None:
    said = verdict(content().populations[0])
    assert said[0] == (
        "After retraining (same-data), 97.0 % of the changes of Direct-SAA, α = 0.05 still work "
        "(target 95 %), against 54.0 % of the changes of Naive."
    )  # reached only
    assert said[1] == "The model denied 42 of 100 customers; 1 could not be read."
    assert said[2].startswith("41 of them have")
    assert said[2].endswith("1 is proved to have none.")
    assert "a change with a score of at least 0.586 (Direct-SAA, α = 0.05)" in said[3]
    assert "2.0 times as far" in said[4]
    assert not any("robust" in line for line in said)


def with_strict(**changes: Any) -> Population:
    """The population, with another second method."""
    people = content().populations[0]
    return replace(people, methods=(people.methods[0], replace(people.methods[1], **changes)))


def measured(value: float, low: float, high: float, held: Estimate | None = None) -> tuple[Validity, ...]:
    found = Estimate(value, low, high)
    return (Validity("same-data", found, found, True, held or Estimate()),)


@pytest.mark.parametrize(
    ("validity", "warns", "word"),
    [
        (measured(0.18, 0.15, 0.22), True, "with strict recourse"),
        (measured(0.94, 0.93, 0.9499), True, "with strict recourse"),
        (measured(0.94, 0.92, 0.96), False, "with strict recourse"),
        (measured(0.97, 0.95, 0.99), False, "with robust recourse"),
        ((), False, "with strict recourse"),
    ],
    ids=["far below", "significantly below", "perhaps below", "reached", "not measured"],
)
def test_the_word_robust_is_earned_by_measurement(
    validity: tuple[Validity, ...], warns: bool, word: str
) -> None:
    people = with_strict(validity=validity)
    said = warnings(people)
    html = render(replace(content(), populations=(people,)))
    tiles = re.findall(r'<div class="tile ([^"]*)"><dt>([^<]*)</dt>', html)
    assert len(said) == warns
    assert (word, "good" if word == "with robust recourse" else "") in {(n, s) for s, n in tiles}
    if warns:
        for words in ("certify", "more trees", "shallower trees", "smaller β", "aims at 95 %"):
            assert words in said[0]
        assert html.index("Promise not kept") < html.index('<ul class="verdict">')
        assert ("none", "work after retraining") in tiles
    else:
        assert "Promise not kept" not in html
    if not validity:
        assert verdict(people)[0].startswith("Nothing was measured")
        assert ("open", "validity not measured") in tiles
        assert "with robust recourse" not in html


def test_fully_grown_trees_are_named_first_where_a_promise_was_not_kept() -> None:
    """scikit-learn's default forest on the breast-cancer data: 18 % held where 95 % were promised."""
    short = replace(with_strict(validity=measured(0.18, 0.15, 0.22)), fully_grown=True)
    first = verdict(short)[0]
    assert first.startswith("The model itself is the obstacle: its trees are fully grown")
    for words in ("18.0 %", "target is 95 %", "max_depth", "min_samples_leaf", "certified"):
        assert words in first
    kept = replace(with_strict(validity=measured(0.97, 0.95, 0.99)), fully_grown=True)
    limited = with_strict(validity=measured(0.18, 0.15, 0.22))
    assert not any("obstacle" in line for line in (*verdict(kept), *verdict(limited)))


CERTIFIED: dict[str, Any] = {
    "title": "Certified, α = 0.05, δ = 0.05",
    "certificates": Certificates(40, 36, "with confidence 0.95 <b>", 100, 0.05, 1, "same-data"),
}


def test_certificates_stand_beside_what_validation_measured() -> None:
    held = measured(0.9, 0.85, 0.94, Estimate(0.985, 0.97, 0.995))
    people = with_strict(**CERTIFIED, validity=held)
    asked = Outcomes("Certified", 36, 2, 0, 4)
    people = replace(people, headline=people.methods[1].title, strict=asked)
    html = render(replace(content(), populations=(people,)))
    assert warnings(people) == []  # the promise is about certified changes only
    row = next(r for r in re.findall(r"<tr>.*?</tr>", html, re.S) if ">36<" in r and ">100<" in r)
    cells = re.sub(r"<[^>]*>", "|", row).replace("\u00a0", " ")
    for cell in (
        "|40|",
        "|36|",
        "|90.0 %|",
        "|4|",
        "|100|",
        "|0.05|",
        "|95 %|",
        "|98.5 % (97.0 % to 99.5 %)",
    ):
        assert cell in cells
    assert html.count("with confidence 0.95 &lt;b&gt;") == 1
    assert "36 of 40 are certified" in " ".join(verdict(people))
    assert "4 have only a change that is not certified" in " ".join(verdict(people))
    assert ">with certified recourse<" in html


def test_certificates_that_validation_refutes_are_flagged() -> None:
    people = with_strict(**CERTIFIED, validity=measured(0.9, 0.85, 0.94, Estimate(0.9, 0.88, 0.92)))
    (said,) = warnings(people)
    assert "90.0 % (88.0 % to 92.0 %)" in said
    assert "Do not rely on these certificates" in said


def test_a_certificate_for_a_scenario_that_was_not_validated_says_so() -> None:
    other = Certificates(40, 36, "a claim", 100, 0.05, 1, "evolving")
    people = with_strict(title=CERTIFIED["title"], certificates=other, validity=measured(0.5, 0.4, 0.6))
    people = replace(people, headline=people.methods[1].title)
    assert warnings(people) == []
    assert "validation did not measure the scenario evolving" in " ".join(verdict(people))


def test_a_population_without_anyone_denied_is_a_page_too() -> None:
    report = content()
    nobody = Population("customers", 5, 5, 0, 0, Outcomes("any", 0, 0, 0), None, None, ())
    html = render(
        replace(report, populations=(nobody,), customers=(), denied=0, since=None, failed=(), slow=())
    )
    assert "The model denied 0 of 5 customers." in html
    assert "No customer was denied." in html


def test_several_populations_have_a_section_each() -> None:
    report = content()
    several = tuple(replace(report.populations[0], name=name) for name in ("adult", "spambase"))
    page = Page(render(replace(report, kind="sweep", populations=several, since=None)))
    assert len([a for a in page.all("details") if a.get("class") == "population"]) == 2
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1e6), st.floats(1e-9, 1e6))
def test_ticks_span_the_range_in_few_steps(low: float, width: float) -> None:
    at = ticks(low, low + width)
    assert at[0] <= low * (1 + 1e-9)
    assert at[-1] >= (low + width) * (1 - 1e-9)
    assert 2 <= len(at) <= 8
