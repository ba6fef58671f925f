"""The text: sentences of a source whose probabilities are known, so that the perplexity has a floor that can be computed.

A paragraph tells who takes what and goes where, asks about it, and adds numbers. Each token is drawn from a distribution that the
tokens before it determine, so that the probability of a text is the product of what was drawn. Answers and sums are certain, for whoever remembers.
Nothing is anybody's text, held-out text is as long as it is wanted, and a seed stands for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

NAMES = ("ada", "ben", "cleo", "dan", "eva", "finn", "gita", "hugo", "iris", "jon", "kara", "liam", "mona", "nils", "olga", "paul")
OBJECTS = (
    "apple", "ball", "bell", "book", "bowl", "box", "brush", "candle", "chair", "clock", "coat", "cup", "drum", "fork", "hat", "kettle",
    "key", "kite", "lamp", "map", "mirror", "nail", "pen", "plate", "ring", "rope", "shoe", "spoon", "stone", "sword", "vase", "watch",
)  # fmt: skip
PLACES = ("attic", "barn", "bridge", "cellar", "church", "field", "garden", "harbour", "kitchen", "library", "market", "mill", "office", "river", "school", "tower")
COLOURS = ("black", "blue", "brown", "golden", "green", "grey", "orange", "pink", "purple", "red", "silver", "white")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = ("begin", ".", "?", "takes", "likes", "goes", "to", "the", "who", "has", "where", "is", "add", "and", "gives")
VOCABULARY: tuple[str, ...] = (*WORDS, *DIGITS, *COLOURS, *PLACES, *NAMES, *OBJECTS)
#: Numbers of tokens that a model sees; a paragraph has one more, of which the first is never predicted.
LENGTH = 64
#: Seeds: of the source's tables, of the text for training, and of text that was held out.
TABLES_SEED, TRAINING_SEED, HELD_OUT_SEED = 7, 1, 2
_TOKEN = {word: number for number, word in enumerate(VOCABULARY)}
Tokens = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Source:
    """What is drawn after what; rows of each table add to 1."""

    name: Doubles
    likes: Doubles
    place: Doubles
    colour: Doubles
    object: Doubles


def make_source(seed: int = TABLES_SEED) -> Source:
    """The tables: rows from a Dirichlet distribution, so that a few choices are frequent and most are rare."""
    rng = np.random.default_rng(seed)
    likes = rng.dirichlet(np.full(len(NAMES), 0.5), len(NAMES)) * (1 - np.eye(len(NAMES)))
    return Source(
        name=rng.dirichlet(np.full(len(NAMES), 2.0)), likes=likes / likes.sum(1, keepdims=True),
        place=rng.dirichlet(np.full(len(PLACES), 0.4), len(NAMES)), colour=rng.dirichlet(np.full(len(COLOURS), 0.4), len(NAMES)),
        object=rng.dirichlet(np.full(len(OBJECTS), 0.4), len(COLOURS)),
    )  # fmt: skip


@dataclass(slots=True)
class _Writer:
    source: Source
    rng: np.random.Generator
    #: Who took what, and who went where, last.
    holders: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def write(self) -> Iterator[tuple[str, float]]:
        """Tokens without end, each with its probability."""
        yield "begin", 1.0
        while True:
            yield from self._write_sentence()

    def _draw(self, weights: Sequence[float] | Doubles) -> tuple[int, float]:
        table = np.asarray(weights, np.float64)
        table = table / table.sum()
        chosen = int(self.rng.choice(len(table), p=table))
        return chosen, float(table[chosen])

    def _write_sentence(self) -> Iterator[tuple[str, float]]:
        kinds = (self._tell, self._ask_who, self._ask_where, self._add)
        kind, p = self._draw([5, 2 if self.holders else 0, 2 if self.places else 0, 1])
        sentence = kinds[kind]()
        word, first = next(sentence)
        yield word, p * first
        yield from sentence

    def _tell(self) -> Iterator[tuple[str, float]]:
        name, p = self._draw(self.source.name)
        yield NAMES[name], p
        verb, p = self._draw([3, 2, 1])
        yield ("takes", "goes", "likes")[verb], p
        if verb == 0:
            yield "the", 1.0
            colour, p = self._draw(self.source.colour[name])
            yield COLOURS[colour], p
            thing, p = self._draw(self.source.object[colour])
            yield OBJECTS[thing], p
            self.holders[thing] = name
        elif verb == 1:
            yield "to", 1.0
            yield "the", 1.0
            place, p = self._draw(self.source.place[name])
            yield PLACES[place], p
            self.places[name] = place
        else:
            other, p = self._draw(self.source.likes[name])
            yield NAMES[other], p
        yield ".", 1.0

    def _ask_who(self) -> Iterator[tuple[str, float]]:
        thing = list(self.holders)[self._draw(np.ones(len(self.holders)))[0]]
        for word in ("who", "has", "the"):
            yield word, 1.0
        yield OBJECTS[thing], 1 / len(self.holders)
        for word in ("?", NAMES[self.holders[thing]], "."):
            yield word, 1.0

    def _ask_where(self) -> Iterator[tuple[str, float]]:
        name = list(self.places)[self._draw(np.ones(len(self.places)))[0]]
        for word in ("where", "is"):
            yield word, 1.0
        yield NAMES[name], 1 / len(self.places)
        for word in ("?", "the", PLACES[self.places[name]], "."):
            yield word, 1.0

    def _add(self) -> Iterator[tuple[str, float]]:
        one, other = (int(n) for n in self.rng.integers(0, 10, 2))
        yield "add", 1.0
        yield DIGITS[one], 0.1
        yield "and", 1.0
        yield DIGITS[other], 0.1
        for word in ("gives", DIGITS[(one + other) // 10], DIGITS[(one + other) % 10], "."):
            yield word, 1.0


def write_text(paragraphs: int, seed: int, source: Source | None = None) -> tuple[Tokens, Doubles]:
    """Tokens int64 [paragraphs, LENGTH + 1], and the natural logarithm of each one's probability given those before it."""
    given = source or make_source()
    tokens, logs = np.empty((paragraphs, LENGTH + 1), np.int64), np.empty((paragraphs, LENGTH + 1))
    for row in range(paragraphs):
        writer = _Writer(given, np.random.default_rng([seed, row])).write()
        for column in range(LENGTH + 1):
            word, p = next(writer)
            tokens[row, column], logs[row, column] = _TOKEN[word], np.log(p)
    return tokens, logs
