"""The judge of grouped products: each expert's rows are one product, which the judge of products judges."""
