"""Sets of wrong and right kernels, each written blind: without a look into the judge that they measure. They are frozen.

`sets.py` lists them; `python -m tests.corpora` judges them.
"""
