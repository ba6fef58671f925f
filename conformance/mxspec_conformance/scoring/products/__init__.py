"""The judge of tests on products: `matmul` of two operands with block scales."""
