"""The judge of tests on products: `matmul` of two sides with block scales."""
