"""Messages are found by their words, and only by their owner."""

from __future__ import annotations

import unicodedata
from datetime import timedelta

import msgspec
import pytest

from segue.core.address import Platform
from segue.core.session import Session
from segue.core.transcript import Role
from segue.store import Store, Tx, leases, owners, search, sessions, transcripts
from segue.store.base import SqlDialect
from segue.store.search import _BATCH, _DEPTH, Hit
from tests.store.conftest import OpenStore
from tests.store.samples import AT, ODD, answered, hold, on_sqlite, said, say


async def found(store: Store, words: str, owner: str = "me") -> list[str]:
    return [hit.snippet for hit in await search.messages(store, owner, words)]


async def indexed(store: Store, words: str) -> set[int]:
    """The numbers of the messages that the index finds."""
    matches = await store.read(search._indexed, "me", search.words_of(words), 1_000, "")
    return {match.message_id & 0xFFFFFFFF for match in matches}


def decomposed(words: str) -> str:
    return unicodedata.normalize("NFD", words)


async def test_a_hit_has_the_session_and_the_time_of_its_message(store: Store, session: Session):
    await sessions.rename(store, session.id, "garden")
    await say(store, session.id, said("plant the roses"), answered("Red ones?"))
    (hit,) = await search.messages(store, "me", "roses")
    assert hit == Hit(
        session_id=session.id,
        title="garden",
        seq=1,
        role=Role.USER,
        at=AT,
        snippet="plant the roses",
    )


async def test_a_word_is_found_by_its_prefix_ignoring_case(store: Store, session: Session):
    await say(store, session.id, said("Deployment to staging"))
    for words in ("deployment", "DEPLOY", "dep", "sta", "Deployment staging"):
        assert await found(store, words) == ["Deployment to staging"]
    for words in ("ployment", "stagings", "deployments"):
        assert await found(store, words) == []


async def test_all_the_words_must_be_in_the_message(store: Store, session: Session):
    await say(store, session.id, said("red roses"), said("red tulips"), said("white roses"))
    assert await found(store, "roses red") == ["red roses"]
    assert await found(store, "red") == ["red tulips", "red roses"]
    assert await found(store, "red white") == []


AROUND = [
    ("see src/segue/store/wake.py there", "wake"),
    ("see src/segue/store/wake.py there", "src/segue/store/wake.py"),
    ("the file wake_up_call.py", "call"),
    ("write to me@example.org today", "example"),
    ("https://example.org/a/page?q=roses", "roses"),
    ("well-known", "known"),
    ("version 3.54.1", "54"),
    ("call store.sessions.search(owner)", "sessions"),
    ("it's Größe 7½", "größe"),
    ("日本語 テスト", "日本語"),
    ("don't", "don't"),
]


async def test_a_word_is_found_next_to_any_punctuation(store: Store, session: Session):
    await say(store, session.id, *(said(text) for text, _ in dict(AROUND).items()))
    missed = [(text, words) for text, words in AROUND if text not in await found(store, words)]
    assert missed == []


WRITTEN = [
    ("हिन्दी में", "हिन्दी"),
    ("كِتَاب", "كِتَاب"),
    ("مُحَمَّد", "محمد"),
    ("my résumé", decomposed("résumé")),
    (decomposed("my résumé"), "résumé"),
    ("my résumé", "resume"),
    ("Việt Nam", "viet"),
    ("Việt Nam", decomposed("Việt")),
    ("tuyệt vời", "tuyet"),
    ("άνθρωπος", "ανθρωπος"),
    ("ΘΕΣΣΑΛΟΝΙΚΗ", "θες"),
    ("明日は東京へ行きます", "東京"),
    ("私はPythonを使う", "python"),
    ("สวัสดีครับ", "ครับ"),
    (decomposed("한글 문서"), "한글"),
]


@pytest.mark.parametrize(("line", "words"), WRITTEN)
async def test_a_word_of_any_script_is_found_in_a_new_message(
    store: Store, session: Session, line: str, words: str
):
    await say(store, session.id, said(line), said("tulips"))
    assert await found(store, words) == [unicodedata.normalize("NFC", line)]


@pytest.mark.parametrize("line", ["Việt", "résumé", "한글", "हिन्दी", "كِتَاب", "άνθρωπος"])
async def test_the_index_finds_a_word_however_it_is_composed(
    store: Store, session: Session, line: str
):
    await say(store, session.id, said(line), said(decomposed(line)))
    await search.index_some(store)
    assert await indexed(store, line) == {1, 2}
    assert await indexed(store, decomposed(line)) == {1, 2}


async def test_the_middle_of_a_word_is_not_found(store: Store, session: Session):
    await say(store, session.id, said(decomposed("résumé")), said("Größe"))
    for words in ("sume", "mé", "röße", "öße"):
        assert await found(store, words) == []


async def test_a_word_is_found_at_the_end_of_a_very_long_new_message(
    store: Store, session: Session
):
    await say(store, session.id, said("lorem ipsum " * 50_000 + "roses"), said("tulips"))
    (snippet,) = await found(store, "roses")
    assert snippet.endswith("roses")


@on_sqlite
async def test_the_index_finds_the_end_of_a_long_message_that_is_not_read_to_the_end(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "_RECENT_TEXT", 0)
    await say(store, session.id, said("lorem ipsum " * 50_000 + "roses"))
    assert len(await found(store, "roses")) == 1


async def test_the_newest_hits_come_first_up_to_the_limit(store: Store, session: Session):
    later = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, later.id, said("rose 1"))
    await say(store, session.id, *(said(f"rose {i}") for i in range(2, 5)))
    at = AT.replace(year=2027)
    await say(store, later.id, msgspec.structs.replace(said("rose 5"), at=at))
    assert await found(store, "rose") == ["rose 5", "rose 1", "rose 4", "rose 3", "rose 2"]
    assert len(await search.messages(store, "me", "rose", limit=2)) == 2


async def test_a_search_does_not_find_messages_of_another_owner(store: Store, session: Session):
    await owners.ensure(store, "you")
    theirs = await sessions.create(store, "you", Platform.LOCAL)
    await say(store, theirs.id, said("my secret roses"))
    await say(store, session.id, said("roses"))
    assert await found(store, "roses") == ["roses"]
    assert await found(store, "secret") == []
    assert await found(store, "roses", "you") == ["my secret roses"]
    assert await found(store, "roses", "nobody") == []


async def test_many_matches_of_another_owner_hide_none_of_the_owner(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "_RANKED", 3)
    lines = (said(f"line {i}") for i in range(_DEPTH))
    await say(store, session.id, said("my roses"), *lines)
    await owners.ensure(store, "you")
    theirs = await sessions.create(store, "you", Platform.LOCAL)
    await say(store, theirs.id, *(said(f"their roses {i}") for i in range(5)))
    assert await found(store, "roses") == ["my roses"]


async def _index_tickets(store: Store, session: Session) -> None:
    """Index many messages with "ticket", a few of them also with other words. There are more than a
    hundred different words, because PostgreSQL estimates nothing with less."""
    lines = [said("ticket 4711 and lilies"), said("the note 4711"), said("ticket 4711 again")]
    lines += [said(f"ticket {i} and roses") for i in range(150)]
    await say(store, session.id, *lines)
    await search.catch_up(store)
    await store.write(_analyze)


def _analyze(tx: Tx) -> None:
    if tx.dialect is SqlDialect.POSTGRES:
        tx.change("ANALYZE words")


async def test_only_the_rare_words_of_a_search_are_looked_up(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "_RANKED", 50)
    await _index_tickets(store, session)
    assert await store.read(search._common, ["ticket", "4711"]) == ["ticket"]
    assert await store.read(search._common, ["tick", "4711", "lilies"]) == ["tick"]
    assert await store.read(search._common, ["ticket", "roses"]) == []
    assert await store.read(search._common, ["lilies", "4711"]) == []
    assert await store.read(search._common, ["ticket"]) == []


async def test_a_rare_word_is_found_in_the_index_together_with_a_common_one(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "_RANKED", 50)
    await _index_tickets(store, session)
    assert await indexed(store, "ticket 4711") == {1, 3}
    assert await indexed(store, "4711 TICK lil") == {1}
    assert await indexed(store, "ticket note") == set()
    assert await indexed(store, "ticket tulips") == set()
    newest = await store.read(search._indexed, "me", ["ticket", "4711"], 1, "")
    assert 3 in {match.message_id & 0xFFFFFFFF for match in newest}


async def test_an_undone_message_is_not_found_until_it_is_restored(store: Store, session: Session):
    lease = await hold(store, session.id, said("roses"))
    assert await found(store, "roses") == ["roses"]
    await transcripts.undo(store, lease)
    assert await found(store, "roses") == []
    await transcripts.restore(store, lease)
    assert await found(store, "roses") == ["roses"]


async def test_messages_of_a_deleted_session_are_not_found(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, session.id, said("roses here"))
    await say(store, other.id, said("roses there"))
    assert len(await found(store, "roses")) == 2
    await say(store, session.id, said("roses not yet looked for"))
    await sessions.delete(store, session.id)
    assert await found(store, "roses") == ["roses there"]
    again = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, again.id, said("tulips"))
    assert await found(store, "roses") == ["roses there"]
    assert await found(store, "tulips") == ["tulips"]


async def test_the_index_keeps_no_word_of_a_deleted_session(store: Store, session: Session):
    await say(store, session.id, said("my secret"))
    assert await found(store, "secret") == ["my secret"]
    await sessions.delete(store, session.id)

    def look(tx: Tx) -> list[tuple[object, ...]]:
        if tx.dialect is SqlDialect.POSTGRES:
            return tx.rows("SELECT id FROM words")
        tx.change("INSERT INTO words (words) VALUES ('integrity-check')")
        return tx.rows("SELECT rowid FROM words WHERE words MATCH 'secret'")

    assert await store.write(look) == []


async def test_a_message_is_found_as_soon_as_it_is_stored(
    store: Store, session: Session, open_store: OpenStore
):
    other = await open_store()
    for i in range(3):
        await say(store, session.id, said(f"roses {i}"))
        assert len(await found(other, "roses")) == i + 1


async def test_a_search_indexes_a_long_backlog_first(store: Store, session: Session):
    lines = (said(f"line {i}") for i in range(_DEPTH + 2 * _BATCH))
    await say(store, session.id, *lines, said("roses"))
    other = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, other.id, said("more roses"))
    assert await found(store, "roses") == ["more roses", "roses"]
    assert len(await found(store, "line 399")) == 1
    assert await search.is_complete(store)


ODD_WORDS = [
    "",
    " ",
    '"',
    "'",
    '"roses',
    "ro'ses",
    "AND",
    "OR NOT",
    "roses AND",
    "NEAR(a b)",
    "content:roses",
    "(roses",
    "roses*",
    "^roses",
    "a & | ! b",
    "<->",
    ":*",
    "\\",
    "%",
    "--",
    ";",
    ODD,
    "\0",
    "²½",
    "ـ",
    "😀",
    "x" * 3_000,
    "a " * 300,
]


async def test_unusual_search_terms_find_nothing_and_do_not_fail(store: Store, session: Session):
    await say(store, session.id, said("tulips"))
    for words in ODD_WORDS:
        assert await found(store, words) == [], words


async def test_operators_in_a_search_are_treated_as_text(store: Store, session: Session):
    await say(store, session.id, said("roses and tulips or lilies"))
    for words in ('"roses"', "roses AND tulips", "(lilies)", "tulips*", "roses OR", "-- roses;"):
        assert len(await found(store, words)) == 1, words


async def test_a_hit_in_a_very_long_message_is_shortened(store: Store, session: Session):
    await say(store, session.id, said("roses " + "lorem ipsum " * 50_000))
    (snippet,) = await found(store, "roses")
    assert snippet.startswith("roses lorem")
    assert len(snippet) <= 170


async def test_the_snippet_shows_the_search_term(store: Store, session: Session):
    await say(store, session.id, said("before " * 100 + "the roses\nare red " + "after " * 100))
    (snippet,) = await found(store, "roses")
    assert "the roses are red" in snippet
    assert snippet.startswith("…")
    assert snippet.endswith("…")


async def test_a_common_word_is_ranked_by_time_and_not_by_the_start_of_its_session(store: Store):
    first = await sessions.create(store, "me", Platform.LOCAL)
    second = await sessions.create(store, "me", Platform.LOCAL)
    for number in range(6):
        at = AT + timedelta(minutes=number)
        target = first if number % 2 else second
        await say(store, target.id, msgspec.structs.replace(said(f"rose {number}"), at=at))
    assert await found(store, "rose") == [f"rose {number}" for number in reversed(range(6))]
    hits = await search.messages(store, "me", "rose", limit=3)
    assert [hit.snippet for hit in hits] == ["rose 5", "rose 4", "rose 3"]


@pytest.mark.parametrize(
    "words",
    [
        "Größe",
        "grö",
        "resume",
        "résumé",
        "don't",
        "wake py",
        "Việt",
        "हिन्दी",
        "दी",
        "كِتَاب",
        "ت",
        "東京",
    ],
)
async def test_what_the_index_finds_is_found_in_new_messages(
    store: Store, session: Session, words: str
):
    lines = ["Größe 7", "my résumé", "a resume", "don't", "src/wake.py", "wakeful pylons"]
    lines += [decomposed("my résumé"), "Việt", decomposed("Việt"), "हिन्दी", "كِتَاب", "東京へ"]
    await say(store, session.id, *map(said, lines))
    new = await store.read(search.find, "me", words, limit=20, without=None)
    await search.index_some(store)
    assert await indexed(store, words) <= {hit.seq for hit in new}
    assert new


async def test_a_new_message_is_found_before_it_is_indexed(store: Store, session: Session):
    await say(store, session.id, said("roses"))
    assert not await search.is_complete(store)
    hits = await store.read(search.find, "me", "roses", limit=20, without=None)
    assert [hit.snippet for hit in hits] == ["roses"]


async def test_a_session_is_queued_for_the_index_once_until_it_is_indexed(
    store: Store, session: Session
):
    def queued(tx: Tx) -> list[tuple[object, ...]]:
        return tx.rows("SELECT session_no FROM unindexed")

    lease = await hold(store, session.id, said("one"), said("two"))
    await transcripts.append(store, lease, [said("three")])
    assert len(await store.read(queued)) == 1
    assert await search.index_some(store)
    assert await store.read(queued) == []
    assert not await search.index_some(store)
    await transcripts.append(store, lease, [said("four")])
    assert len(await store.read(queued)) == 1
    await leases.release(store, lease)
    await sessions.delete(store, session.id)
    assert await store.read(queued) == []


async def test_an_imported_session_is_queued_for_the_index(store: Store, session: Session):
    await say(store, session.id, said("roses"))
    lines = [line async for line in transcripts.export(store, "me", session.id)]
    await search.index_some(store)
    await transcripts.import_lines(store, "me", lines)
    assert not await search.is_complete(store)
    assert await found(store, "roses") == ["roses", "roses"]


async def test_the_background_indexes_everything(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "PAUSE_SECONDS", 0.0)
    await say(store, session.id, *(said(f"line {i}") for i in range(2 * _BATCH + 1)))
    await search.catch_up(store)
    assert await search.is_complete(store)
