"""Does search find what answers a question, on data that others made?

    python -m benchmarks.retrieval DATASET_DIR... [--run FILE] [--mode text|vector|hybrid] [--also FILE]
                                   [--questions FILE] [--json]

A dataset folder holds corpus.jsonl(.gz) with {group, id, session, time, speaker, text} and
queries.jsonl(.gz) with {group, id, category, text, relevant[]}. Each group becomes a workspace:
sessions with speakers as chat conversations, other documents as memory files. Every question goes
through Workspace.search with groupBy "passage"; passages are mapped back to document ids by path
and lines. All questions count: an error is a zero, not a gap. With --questions (lines of {id, questions[]}),
the files carry those in their front matter, as a save would.

--also gives the help that a caller may give: a JSON object, question id or question text -> list of texts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import scoring
from benchmarks.caching import CachingEmbedder, default_folder
from spec_kit_memory.answers import FlatResult
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.settings import Search, Semantic, Settings
from spec_kit_memory.workspace import Workspace

# Passages asked for: long documents fill several places of a flat list.
DEPTH = 60
# Everything is indexed and asked at this moment, so that two runs of the same code are the same byte for byte: equal
# scores would otherwise be ordered by the fractions of a second at which their files were indexed.
MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)

Row = Mapping[str, Any]


def rows_of(folder: Path, name: str) -> list[Row]:
    for path, opened in ((folder / f"{name}.jsonl.gz", gzip.open), (folder / f"{name}.jsonl", open)):
        if path.exists():
            with opened(path, "rt", encoding="utf-8") as lines:
                return [json.loads(line) for line in lines if line.strip()]
    sys.exit(f"{folder} has no {name}.jsonl or {name}.jsonl.gz")


def front_of(questions: Sequence[str]) -> str:
    """Front matter that says which questions a file answers."""
    return (
        "".join(["---\nquestions:\n", *(f"  - {json.dumps(question)}\n" for question in questions), "---\n"])
        if questions
        else ""
    )


def text_of(workspace: Workspace, path: str) -> str:
    """A memory as it is kept. To read it through the workspace would count as use and raise its score."""
    store = workspace._runtime.store
    memory = store.documents.get(path=path)
    return store.documents.text(memory.id) if memory else ""


@dataclass
class Figures:
    """What one dataset's run amounted to."""

    name: str
    rows: list[dict[str, float]] = field(default_factory=list)
    by_category: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    latencies_ms: list[float] = field(default_factory=list)
    run: list[dict[str, Any]] = field(default_factory=list)
    errors: int = 0
    documents: int = 0
    unmapped: int = 0
    passages: int = 0
    index_bytes: int = 0
    seconds_text: float = 0.0
    seconds_vectors: float = 0.0
    embedded: int = 0
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Of the questions with texts that help: what they find alone, and with them.
    alone: list[dict[str, float]] = field(default_factory=list)
    helped: list[dict[str, float]] = field(default_factory=list)

    def add_pair(self, question: Row, alone: Sequence[str], helped: Sequence[str]) -> None:
        if question["relevant"]:
            self.alone.append(scoring.measure(question["relevant"], alone))
            self.helped.append(scoring.measure(question["relevant"], helped))

    def add(self, question: Row, ranked: Sequence[str]) -> None:
        self.run.append({"id": question["id"], "ranked": list(ranked)})
        if question["relevant"]:
            row = scoring.measure(question["relevant"], ranked)
            self.rows.append(row)
            self.by_category[str(question.get("category", ""))].append(row)
            if self.questions:
                asked = any(id_ in self.questions for id_ in question["relevant"])
                self.by_category["its file has questions" if asked else "its file has none"].append(row)

    def as_json(self) -> dict[str, Any]:
        quality = {name: round(scoring.average(self.rows, name), 4) for name in scoring.MEASURES}
        return {
            "dataset": self.name,
            "questions": len(self.run),
            "errors": self.errors,
            **quality,
            "p50_ms": round(scoring.percentile(self.latencies_ms, 0.5), 2),
            "p95_ms": round(scoring.percentile(self.latencies_ms, 0.95), 2),
            "documents": self.documents,
            "unmapped": self.unmapped,
            "passages": self.passages,
            "index_bytes": self.index_bytes,
            "documents_per_second_text": round(self.documents / self.seconds_text, 1) if self.seconds_text else None,
            "seconds_vectors": round(self.seconds_vectors, 1),
            "embedded_now": self.embedded,
        }


class Shelf:
    """One group as a workspace, and where each document stands in it."""

    def __init__(self, root: Path, documents: Sequence[Row], options: Options) -> None:
        self._documents = documents
        self._options = options
        self._places: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        settings = Settings(
            root=root,
            semantic=Semantic(model="none" if options.mode == "text" else "local"),
            search=Search(fusion=options.fusion, role_prior=options.role_prior),
            watch="off",
        )
        self.embedder = None if options.mode == "text" else CachingEmbedder(LocalEmbedder(), options.cache)
        self.workspace = Workspace(settings, embedder=self.embedder, now=lambda: MOMENT)
        self.unmapped = 0

    def fill(self) -> tuple[float, float]:
        """Write, import and index; seconds until text is searchable, and until vectors are."""
        spoken: dict[str, list[Row]] = defaultdict(list)
        started = time.perf_counter()
        for number, document in enumerate(self._documents):
            if document.get("speaker"):
                spoken[str(document.get("session") or "")].append(document)
            else:
                self._write(number, document)
        for session, turns in spoken.items():
            self._converse(session, turns)
        self.workspace.index(embed=False)
        text_done = time.perf_counter()
        self.workspace.index()
        vectors_done = time.perf_counter()
        self._unite()
        return text_done - started, vectors_done - text_done

    def _unite(self) -> None:
        """Files with the same text are one memory, found under the path of the first: all of them are found."""
        offset = 0
        while cards := self.workspace.list(limit=100, offset=offset).memories:
            for card in cards:
                self._places[card.path] += [place for alias in card.aliases for place in self._places.get(alias, ())]
            offset += len(cards)

    def _write(self, number: int, document: Row) -> None:
        path = self.workspace.settings.root / "memory" / f"{number:06d}.md"
        path.parent.mkdir(exist_ok=True)
        front = front_of(self._options.questions.get(str(document["id"]), ()))
        path.write_text(f"{front}{document['text']}\n", encoding="utf-8")
        self._places[f"memory/{number:06d}.md"] = [(1, sys.maxsize, str(document["id"]))]

    def _converse(self, session: str, turns: Sequence[Row]) -> None:
        name = f"session-{session or 'all'}"
        transcript = self.workspace.settings.root / f"{name}.jsonl"
        with transcript.open("w", encoding="utf-8") as file:
            for turn in turns:
                said = {"conversation": name, "role": turn["speaker"], "content": turn["text"], "time": turn["time"]}
                file.write(json.dumps(said, ensure_ascii=False) + "\n")
        for kept in self.workspace.chat_import([transcript]).imported:
            self._locate(str(kept["path"]), turns)
        transcript.unlink()

    def _locate(self, path: str, turns: Sequence[Row]) -> None:
        """Find each turn's lines in the conversation as it was kept: it begins with its speaker's name."""
        lines = text_of(self.workspace, path).split("\n")
        at = 0
        starts: list[tuple[int, str]] = []
        for turn in turns:
            opening = _opening(turn)
            results = next((n for n in range(at, len(lines)) if lines[n].replace(" ", "").startswith(opening)), None)
            if results is None:
                self.unmapped += 1
                continue
            starts.append((results + 1, str(turn["id"])))
            at = results + 1
        for (first, id_), (following, _) in zip(starts, [*starts[1:], (len(lines) + 2, "")], strict=True):
            self._places[path].append((first, following - 1, id_))

    def documents_of(self, results: Sequence[Any]) -> list[str]:
        found: dict[str, None] = {}
        for result in results:
            if not isinstance(result, FlatResult):
                continue
            first = int(result.lines.split("-")[0])
            for start, end, id_ in self._places.get(result.path, ()):
                if start <= first <= end:
                    found.setdefault(id_)
        return list(found)


def _opening(turn: Row) -> str:
    """The beginning of a kept turn without spaces, up to its first words."""
    speaker, said = " ".join(str(turn["speaker"]).split()), " ".join(str(turn["time"]).split())
    name = f"[{said}] {speaker}" if said else speaker
    words = str(turn["text"]).strip().split("\n")[0][:20]
    return (
        f"{name}:{words}".replace(" ", "")
        if not words.startswith(("#", "-", "*", "`", "|", ">"))
        else f"{name}:".replace(" ", "")
    )


@dataclass(frozen=True)
class Options:
    mode: str = "hybrid"
    fusion: str = "best"
    role_prior: Mapping[str, float] = field(default_factory=dict)
    cache: Path = field(default_factory=default_folder)
    most: int | None = None
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of the documents' own, by document id
    also: Mapping[str, Sequence[str]] = field(default_factory=dict)

    helped_only: bool = False

    def help_for(self, question: Row) -> Sequence[str]:
        return help_for(self.also, str(question["id"]), str(question["text"]))


def read_also(path: Path | None) -> dict[str, list[str]]:
    """Question id or question text -> the same in other words."""
    return {} if path is None else dict(json.loads(path.read_text(encoding="utf-8")))


def help_for(also: Mapping[str, Sequence[str]], id_: str, text: str) -> Sequence[str]:
    return also.get(id_) or also.get(text) or ()


def groups_of(folder: Path, options: Options) -> Iterator[tuple[str, list[Row], list[Row]]]:
    """The name, the documents and the questions of each group that is asked about."""
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(folder, "corpus"):
        documents[str(document["group"])].append(document)
    questions: dict[str, list[Row]] = defaultdict(list)
    for question in rows_of(folder, "queries")[: options.most]:
        if options.helped_only and not options.help_for(question):
            continue
        questions[str(question["group"])].append(question)
    for group, asked in questions.items():
        yield group, documents[group], asked


def run(folder: Path, options: Options) -> Figures:
    figures = Figures(folder.name, questions=options.questions)
    for group, documents, asked in groups_of(folder, options):
        print(f"  {folder.name} {group}: {len(documents)} documents, {len(asked)} questions", file=sys.stderr)
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents, options)
            with shelf.workspace:
                _measure(shelf, asked, figures, options)
    return figures


def _measure(shelf: Shelf, asked: Sequence[Row], figures: Figures, options: Options) -> None:
    seconds_text, seconds_vectors = shelf.fill()
    figures.seconds_text += seconds_text
    figures.seconds_vectors += seconds_vectors
    stats = shelf.workspace.stats()
    figures.passages += stats.totals["passages"]
    figures.index_bytes += stats.size_bytes
    figures.documents += len(shelf._documents)
    figures.unmapped += shelf.unmapped
    figures.embedded += shelf.embedder.computed if shelf.embedder else 0
    shelf.workspace.search("warm up", group_by="passage", mode=options.mode)
    for question in asked:
        texts = options.help_for(question)
        ranked = list(_answer(shelf, question, texts, figures, options))
        figures.add(question, ranked)
        if texts:
            figures.add_pair(question, list(_answer(shelf, question, (), figures, options)), ranked)


def _answer(shelf: Shelf, question: Row, texts: Sequence[str], figures: Figures, options: Options) -> Iterator[str]:
    started = time.perf_counter()
    try:
        answer = shelf.workspace.search(
            str(question["text"]),
            also=texts,
            group_by="passage",
            limit=DEPTH,
            mode=options.mode,
        )
    except SpecKitMemoryError as error:
        figures.errors += 1
        print(f"  {question['id']}: {error.code} {error.message}", file=sys.stderr)
        return
    figures.latencies_ms.append((time.perf_counter() - started) * 1000)
    yield from shelf.documents_of(answer.results)


def show(figures: Figures) -> None:
    told = figures.as_json()
    print(f"{figures.name}: {told['questions']} questions, {figures.errors} errors, {told['documents']} documents")
    for name in scoring.MEASURES:
        low, high = scoring.interval(figures.rows, name)
        print(f"  {name:10} {told[name]:.4f}   95% {low:.4f} to {high:.4f}")
    print(f"  search     p50 {told['p50_ms']} ms, p95 {told['p95_ms']} ms")
    print(
        f"  index      {told['passages']} passages, {told['index_bytes'] / 1e6:.1f} MB, "
        f"{told['documents_per_second_text']} documents/s until text is searchable, "
        f"vectors {told['seconds_vectors']} s ({told['embedded_now']} embedded now, the rest from the cache)"
    )
    if figures.helped:
        show_help(figures.alone, figures.helped)
    if figures.unmapped:
        print(f"  {figures.unmapped} documents could not be placed; they count as not found")
    if len(figures.by_category) > 1:
        for category, rows in sorted(figures.by_category.items()):
            parts = " ".join(
                f"{name} {scoring.average(rows, name):.3f}" for name in ("recall@5", "recall@10", "ndcg@10")
            )
            print(f"  {category:28} n={len(rows):4} {parts}")


def show_help(alone: Sequence[Mapping[str, float]], helped: Sequence[Mapping[str, float]]) -> None:
    print(f"  {len(helped)} questions with texts: alone, with them, and the difference of each question")
    for name in scoring.MEASURES:
        gains = [{name: after[name] - before[name]} for before, after in zip(alone, helped, strict=True)]
        parts = []
        for rows in (alone, helped, gains):
            low, high = scoring.interval(rows, name)
            parts.append(f"{scoring.average(rows, name):7.4f} ({low:.3f} to {high:.3f})")
        print(f"  {name:10} {'   '.join(parts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--run", type=Path, help="write {id, ranked} lines; with several datasets, one file per set")
    parser.add_argument("--mode", choices=("text", "vector", "hybrid"), default="hybrid")
    parser.add_argument("--fusion", choices=("best", "rrf"), default="best")
    parser.add_argument("--role-prior", action="append", default=[], metavar="SPEAKER=NUMBER")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where embeddings are kept between runs")
    parser.add_argument("--also", type=Path, metavar="FILE", help="JSON: question id or text -> texts that help")
    parser.add_argument("--helped", action="store_true", help="ask only the questions that --also has texts for")
    parser.add_argument("--most", type=int, help="ask only the first so many questions")
    parser.add_argument("--questions", type=Path, help="questions of the documents' own: lines of {id, questions[]}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    prior = {name: float(number) for name, number in (pair.split("=", 1) for pair in arguments.role_prior)}
    lines = arguments.questions.read_text(encoding="utf-8").splitlines() if arguments.questions else []
    own = {row["id"]: row["questions"] for row in map(json.loads, lines)}
    also = read_also(arguments.also)
    options = Options(
        arguments.mode,
        arguments.fusion,
        prior,
        arguments.cache,
        arguments.most,
        own,
        also,
        helped_only=arguments.helped,
    )
    for folder in arguments.datasets:
        figures = run(folder, options)
        if arguments.run:
            target = (
                arguments.run
                if len(arguments.datasets) == 1
                else arguments.run.with_name(f"{folder.name}-{arguments.run.name}")
            )
            target.write_text("".join(json.dumps(row) + "\n" for row in figures.run), encoding="utf-8")
        if arguments.json:
            print(json.dumps(figures.as_json()))
        else:
            show(figures)


if __name__ == "__main__":
    main()
