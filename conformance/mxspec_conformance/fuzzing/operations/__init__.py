"""Fuzzing functions of affine integers and of sparse operands: random groups, judged by the rules that judge the vectors."""
