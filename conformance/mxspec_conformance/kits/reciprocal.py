"""NVIDIA's `rcp.approx.ftz.f32` as integers: 128 quadratic pieces instead of a table of 2^23 answers.

The significand x = 1.m of a float32 has a piece (the first 7 bits of m) and a place in it (the other 16 bits, w). The 24 bits of 1/x are

    y = (a * 2^14 - 2 * b * w + 2 * c * square(w) + 4046) >> 16,

where the piece has a (27 bits, in quarters of the last place), b (16 bits) and c (10 bits), and square(w) is w * w in units of 2^17 without the carries
of what is smaller: of the products of two bits of w, each pair counted once with twice its weight, those below 2^17 are left out. This was found from the
measured table (`mxspec.rcp_table`): its answers leave one choice of each b and c, and 4046 or 4047. `find_pieces` does it again; the sums are the
table's for all 2^23 significands.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mxspec.rcp_table import load_rcp_table

#: Added before the last 16 bits are cut off.
BIAS = 4046
#: Bits of a place in a piece.
PLACE_BITS = 16
#: (a, b, c) of each piece.
PIECES: tuple[tuple[int, int, int], ...] = (
    (67108864, 65534, 1013), (66588642, 64522, 989), (66076422, 63533, 966), (65572021, 62567, 945), (65075262, 61622, 923),
    (64585976, 60699, 902), (64103992, 59797, 883), (63629146, 58914, 863), (63161284, 58051, 845), (62700254, 57207, 827),
    (62245905, 56381, 809), (61798091, 55572, 791), (61356677, 54781, 774), (60921524, 54007, 758), (60492499, 53249, 742),
    (60069474, 52507, 727), (59652325, 51780, 711), (59240930, 51068, 696), (58835170, 50371, 682), (58434930, 49688, 669),
    (58040099, 49019, 656), (57650569, 48363, 642), (57266231, 47721, 631), (56886986, 47091, 618), (56512729, 46473, 605),
    (56143366, 45868, 594), (55778798, 45274, 582), (55418934, 44692, 572), (55063686, 44121, 561), (54712961, 43560, 549),
    (54366677, 43011, 540), (54024747, 42471, 529), (53687093, 41942, 519), (53353633, 41423, 510), (53024288, 40913, 501),
    (52698987, 40412, 490), (52377651, 39921, 482), (52060212, 39439, 474), (51746596, 38965, 465), (51436737, 38500, 457),
    (51130565, 38043, 449), (50828017, 37594, 441), (50529029, 37153, 433), (50233538, 36720, 426), (49941482, 36294, 418),
    (49652803, 35876, 412), (49367442, 35464, 403), (49085342, 35060, 397), (48806449, 34663, 390), (48530705, 34272, 383),
    (48258060, 33888, 377), (47988464, 33511, 371), (47721861, 33140, 366), (47458204, 32774, 358), (47197444, 32415, 353),
    (46939534, 32062, 348), (46684429, 31714, 341), (46432082, 31373, 337), (46182446, 31036, 331), (45935480, 30705, 326),
    (45691143, 30379, 320), (45449392, 30059, 316), (45210185, 29743, 310), (44973481, 29432, 305), (44739244, 29127, 302),
    (44507436, 28826, 297), (44278016, 28529, 291), (44050948, 28237, 287), (43826199, 27950, 283), (43603730, 27667, 279),
    (43383510, 27388, 274), (43165503, 27114, 271), (42949675, 26843, 266), (42735995, 26577, 263), (42524430, 26314, 258),
    (42314950, 26056, 256), (42107525, 25801, 251), (41902122, 25550, 248), (41698714, 25302, 243), (41497270, 25058, 240),
    (41297764, 24818, 237), (41100168, 24581, 233), (40904453, 24348, 231), (40710593, 24117, 226), (40518561, 23890, 223),
    (40328333, 23667, 222), (40139883, 23446, 218), (39953186, 23228, 214), (39768218, 23014, 212), (39584955, 22802, 208),
    (39403371, 22593, 205), (39223448, 22388, 204), (39045159, 22184, 199), (38868484, 21984, 197), (38693401, 21787, 196),
    (38519888, 21592, 193), (38347924, 21399, 189), (38177489, 21209, 186), (38008563, 21022, 184), (37841123, 20837, 182),
    (37675154, 20655, 180), (37510633, 20475, 178), (37347543, 20297, 175), (37185866, 20122, 173), (37025582, 19949, 171),
    (36866673, 19778, 169), (36709124, 19609, 166), (36552915, 19443, 165), (36398030, 19278, 161), (36244452, 19116, 160),
    (36092164, 18956, 159), (35941151, 18797, 155), (35791396, 18641, 154), (35642884, 18487, 153), (35495599, 18334, 150),
    (35349528, 18184, 149), (35204652, 18035, 147), (35060959, 17888, 145), (34918436, 17743, 143), (34777064, 17600, 143),
    (34636835, 17458, 140), (34497732, 17318, 138), (34359741, 17180, 137), (34222849, 17043, 135), (34087044, 16908, 133),
    (33952313, 16775, 132), (33818641, 16643, 131), (33686019, 16513, 130),
)  # fmt: skip


def square(w: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The square of places in a piece, in units of 2^17, without the products of bits below it."""
    total = np.zeros_like(w)
    for i in range(PLACE_BITS):
        first = max(i + 1, PLACE_BITS - i)  # the other bits that are above, with weights from 2^17 on
        own = 1 << 2 * i if 2 * i > PLACE_BITS else 0
        total += (w >> i & 1) * (((w >> first << first) << i + 1) + own)
    return total >> PLACE_BITS + 1


def measured_significands() -> npt.NDArray[np.int64]:
    """What the chip answered for each of the 2^23 significands, in units of 2^-24."""
    divisor = (1 << 23) + np.arange(1 << 23, dtype=np.int64)
    rounded = ((1 << 48) // divisor + 1) >> 1
    return rounded + load_rcp_table()


def find_pieces(measured: npt.NDArray[np.int64]) -> tuple[tuple[int, int, int], ...]:
    """The pieces anew, from `measured_significands` or whole pieces of them. Raises ValueError where none or several give the answers."""
    w = np.arange(1 << PLACE_BITS, dtype=np.int64)
    s = square(w)
    solve = np.linalg.pinv(np.stack([np.ones(len(w)), -2.0 * w, 2.0 * s], axis=1))
    return tuple(_find_piece(y, w, s, solve @ ((y << 16) + (1 << 15))) for y in measured.reshape(-1, len(w)))


def _find_piece(
    y: npt.NDArray[np.int64], w: npt.NDArray[np.int64], s: npt.NDArray[np.int64], near: npt.NDArray[np.float64]
) -> tuple[int, int, int]:
    """The one piece near the least squares that gives all answers."""
    found = []
    for c in range(round(near[2]) - 2, round(near[2]) + 3):
        for b in range(round(near[1]) - 2, round(near[1]) + 3):
            rest = (y << 16) + 2 * b * w - 2 * c * s
            a = -((BIAS - int(rest.max())) // (1 << 14))
            if (a << 14) + BIAS < int(rest.min()) + (1 << 16):
                found.append((a, b, c))
    if len(found) != 1:
        raise ValueError(f"{len(found)} quadratics give the answers of a piece, which begin with {y[:3].tolist()}; one was expected")
    return found[0]
