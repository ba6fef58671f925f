"""A cocotb test of the quantizer by the kit's scoreboard: blocks of the kit, and random ones."""

import os
import random

import cocotb
from cocotb.triggers import Timer
from mxspec_scoreboard import Scoreboard, read_blocks


@cocotb.test()
async def quantizer_follows_mx_floor(dut):
    board = Scoreboard(os.environ["MXSPEC_LIBRARY"], "mx-floor", "mxfp4")
    chance = random.Random(15)
    blocks = read_blocks(os.environ["MXSPEC_BLOCKS"])
    for _ in range(200):
        top = chance.randrange(8, 255)
        blocks.append(
            [chance.getrandbits(1) << 31 | top - chance.randrange(8) << 23 | chance.choice((0, 1, 2, 3, 5, 7)) << 20 for _ in range(32)]
        )
    for x in blocks:
        dut.x.value = sum(bits << 32 * lane for lane, bits in enumerate(x))
        await Timer(1, "step")
        codes = int(dut.codes.value)
        board.check(x, [codes >> 4 * lane & 15 for lane in range(32)], int(dut.scale.value))
    dut._log.info(board.summary())
    dut._log.info("covered: " + board.covered())
    assert not board.failed, board.summary()
