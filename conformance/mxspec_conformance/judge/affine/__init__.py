"""Judging affine integers: is an answer legal, is it right under the scale that it stores, and which profile is it?"""
