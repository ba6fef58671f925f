"""The text: sentences of a source whose probabilities are known, so that the perplexity has a floor that can be computed.

A paragraph tells who takes what and goes where, asks about it, and adds numbers. Each token is drawn from a distribution that the
tokens before it determine, so that the probability of a text is the product of what was drawn. Answers and sums are certain, for whoever remembers.
Nothing is anybody's text, held-out text is as long as it is wanted, and a seed stands for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

NAMES = ("ada", "ben", "cleo", "dan", "eva", "finn", "gita", "hugo", "iris", "jon", "kara", "liam", "mona", "nils", "olga", "paul")
OBJECTS = (
    "apple", "ball", "bell", "book", "bowl", "box", "brush", "candle", "chair", "clock", "coat", "cup", "drum", "fork", "hat", "kettle",
    "key", "kite", "lamp", "map", "mirror", "nail", "pen", "plate", "ring", "rope", "shoe", "spoon", "stone", "sword", "vase", "watch",
)  # fmt: skip
PLACES = (
    "attic",
    "barn",
    "bridge",
    "cellar",
    "church",
    "field",
    "garden",
    "harbour",
    "kitchen",
    "library",
    "market",
    "mill",
    "office",
    "river",
    "school",
    "tower",
)
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
#: A token, and its probability given those before it.
Said = tuple[str, float]


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


def _certain(*words: str) -> list[Said]:
    return [(word, 1.0) for word in words]


@dataclass(slots=True)
class _Writer:
    source: Source
    rng: np.random.Generator
    #: Who took what, and who went where, last.
    holders: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def _draw(self, weights: Sequence[float] | Doubles) -> tuple[int, float]:
        table = np.asarray(weights, np.float64)
        table = table / table.sum()
        chosen = int(self.rng.choice(len(table), p=table))
        return chosen, float(table[chosen])

    def write(self, least: int) -> list[Said]:
        """At least so many tokens, in whole sentences."""
        said: list[Said] = [("begin", 1.0)]
        while len(said) < least:
            kind, p = self._draw([5, 2 if self.holders else 0, 2 if self.places else 0, 1])
            (word, first), *rest = (self._tell, self._ask_who, self._ask_where, self._add)[kind]()
            said += [(word, p * first), *rest]
        return said

    def _tell(self) -> list[Said]:
        name, p = self._draw(self.source.name)
        verb, q = self._draw([3, 2, 1])
        said = [(NAMES[name], p), (("takes", "goes", "likes")[verb], q)]
        if verb == 0:
            colour, p = self._draw(self.source.colour[name])
            thing, q = self._draw(self.source.object[colour])
            said += [("the", 1.0), (COLOURS[colour], p), (OBJECTS[thing], q)]
            self.holders[thing] = name
        elif verb == 1:
            place, p = self._draw(self.source.place[name])
            said += [*_certain("to", "the"), (PLACES[place], p)]
            self.places[name] = place
        else:
            other, p = self._draw(self.source.likes[name])
            said.append((NAMES[other], p))
        return [*said, (".", 1.0)]

    def _ask_who(self) -> list[Said]:
        thing = list(self.holders)[self._draw(np.ones(len(self.holders)))[0]]
        return [*_certain("who", "has", "the"), (OBJECTS[thing], 1 / len(self.holders)), *_certain("?", NAMES[self.holders[thing]], ".")]

    def _ask_where(self) -> list[Said]:
        name = list(self.places)[self._draw(np.ones(len(self.places)))[0]]
        return [*_certain("where", "is"), (NAMES[name], 1 / len(self.places)), *_certain("?", "the", PLACES[self.places[name]], ".")]

    def _add(self) -> list[Said]:
        one, other = (int(n) for n in self.rng.integers(0, 10, 2))
        head = [("add", 1.0), (DIGITS[one], 0.1), ("and", 1.0), (DIGITS[other], 0.1)]
        return [*head, *_certain("gives", DIGITS[(one + other) // 10], DIGITS[(one + other) % 10], ".")]


def write_text(paragraphs: int, seed: int, source: Source | None = None) -> tuple[Tokens, Doubles]:
    """Tokens int64 [paragraphs, LENGTH + 1], and the natural logarithm of each one's probability given those before it."""
    given = source or make_source()
    tokens, logs = np.empty((paragraphs, LENGTH + 1), np.int64), np.empty((paragraphs, LENGTH + 1))
    for row in range(paragraphs):
        for column, (word, p) in enumerate(_Writer(given, np.random.default_rng([seed, row])).write(LENGTH + 1)[: LENGTH + 1]):
            tokens[row, column], logs[row, column] = _TOKEN[word], np.log(p)
    return tokens, logs
