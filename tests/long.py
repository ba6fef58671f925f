"""Which tests `make test-long` runs: a split by time. What `make test` runs covers every test function that is quick.

A row names a test function, or one of its parameter sets; of a function with many sets, every so many stay in `make test`.
The seconds are CPU time of all sets together, roughly: some were taken with coverage, which up to doubles it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

#: Test -> (every how many-th parameter set stays in `make test`; 0: none, seconds).
LONG: dict[str, tuple[int, int]] = {
    "tests/test_identify_products.py::test_what_a_kernel_does_is_found": (0, 12),
    "tests/test_identify_products.py::test_what_no_model_gives_is_said": (0, 2),
    "tests/test_product_adapters.py::test_numpy_conforms": (0, 10),
    "tests/test_product_adapters.py::test_mlx_adds_16_bit_products_in_16_bits": (0, 4),
    "tests/test_transports_products.py::test_roads_agree": (0, 6),
    "tests/test_transports_products.py::test_a_c_kernel_and_its_mistakes": (6, 4),
    "tests/test_product_adapters.py::test_mlx_takes_the_scale_ff_as_infinity_and_is_right_otherwise": (0, 3),
    "tests/test_product_adapters.py::test_gguf_has_no_nan": (0, 2),
    "tests/test_product_adapters.py::test_gfloat_decodes_what_it_is_given": (0, 2),
    "tests/test_product_matrix.py::test_what_the_vectors_alone_find": (10, 6),
    "tests/test_product_matrix.py::test_the_vectors_accuse_no_right_kernel": (9, 6),
    "tests/test_product_matrix.py::test_a_row_is_judged_again": (3, 2),
    "tests/test_product_acceptance.py::test_a_row_is_measured_again": (2, 2),
    "tests/test_dot_vectors.py::test_certain_outputs_are_the_rounded_rational_sums": (6, 7),
    "tests/test_dot_vectors.py::test_every_accumulation_of_a_class_is_allowed": (3, 3),
    "tests/test_transports_product_kinds.py::test_roads_agree": (0, 6),
    "tests/test_transports_product_kinds.py::test_a_bundle_holds_affine_and_sparse_sides": (0, 6),
    "tests/test_transports_product_kinds.py::test_a_c_kernel_is_handed_offsets_and_metadata": (3, 12),
    "tests/test_transports_product_kinds.py::test_smoke_multiplies_every_kind": (0, 3),
    "tests/judge/test_product_kinds.py::test_wrong_kernels_fail": (33, 150),
    "tests/judge/test_product_kinds.py::test_mistakes_are_named": (8, 60),
    "tests/judge/test_product_kinds.py::test_right_kernels_pass": (8, 20),
    "tests/judge/test_product_kinds.py::test_designs_do_not_depend_on_the_contract": (6, 14),
    "tests/judge/test_product_kinds.py::test_every_layout_is_taken_or_refused_in_words": (8, 20),
    "tests/judge/test_product_kinds.py::test_every_side_has_cases_of_all_topics_that_are_certain": (6, 5),
    "tests/judge/test_product_kinds.py::test_texts_are_read_back_and_laid_out": (3, 6),
    "tests/judge/test_product_kinds.py::test_a_coarse_class_excuses_no_offset_and_no_scale": (0, 2),
    "tests/judge/test_product_kinds.py::test_the_smallest_product_is_shown_with_what_is_stored": (0, 4),
    "tests/judge/test_product_kinds.py::test_the_contract_is_found": (2, 2),
    "tests/judge/test_product_kinds.py::test_identify_names_the_contract_of_numbers": (0, 3),
    "tests/test_affine.py::test_arrays_equal_the_exact_model": (6, 8),
    "tests/test_affine.py::test_contracts_on_arrays_equal_the_exact_ones": (6, 6),
    "tests/test_affine_mutants.py::test_a_mutant_is_found_out": (8, 8),
    "tests/test_affine_mutants.py::test_mistakes_with_a_name_are_named": (0, 2),
    "tests/judge/test_affine.py::test_every_contract_passes_and_is_named": (4, 4),
    "tests/judge/test_affine.py::test_every_profile_passes_and_is_named": (3, 3),
    "tests/judge/test_affine.py::test_a_case_can_be_shown_and_asked_again": (0, 8),
    "tests/test_transports_affine.py::test_a_bundle_and_the_harness_give_the_verdicts_of_python": (0, 5),
    "tests/test_transports_affine.py::test_drawn_groups_are_finite_and_of_the_dtype": (5, 2),
    "tests/judge/test_products.py::test_wrong_kernels_fail": (36, 100),
    "tests/test_fuzz_products.py::test_a_wrong_kernel_is_found": (20, 60),
    "tests/test_fuzz_products.py::test_a_right_kernel_is_not_accused": (15, 25),
    "tests/test_fuzz_products.py::test_a_cause_is_named_and_shrunk": (4, 6),
    "tests/test_fuzz_products.py::test_another_class_is_a_deviation": (0, 8),
    "tests/test_fuzz_products.py::test_a_class_may_be_asked_for": (0, 4),
    "tests/test_fuzz_products.py::test_what_earlier_calls_leave_is_said": (0, 3),
    "tests/test_fuzz_products.py::test_numbers_are_such_as_no_legitimate_kernel_treats_otherwise": (5, 6),
    "tests/judge/test_products.py::test_right_kernels_pass_under_their_own_class": (8, 40),
    "tests/judge/test_products.py::test_mistakes_are_named": (4, 10),
    "tests/judge/test_products.py::test_another_class_is_a_deviation_and_no_failure": (0, 10),
    "tests/test_action.py::test_the_step_ends_as_the_verdict": (9, 10),
    "tests/test_score_tests.py::test_a_flickering_test_has_no_score": (0, 2),
    "tests/test_score_tests.py::test_hostile_tests_are_told": (2, 2),
    "tests/test_score_tests.py::test_a_pytest_file_with_fixtures_and_replacements": (0, 2),
    "tests/test_kits.py::test_the_c_kit_compiles_clean_and_finds_ties_away": (4, 3),
    "tests/test_kits.py::test_no_right_implementation_is_rejected": (3, 2),
    "tests/test_kits.py::test_the_generated_header_equals_the_model": (0, 3),
    "tests/test_score_tests.py::test_every_right_implementation_passes_every_rule": (0, 10),
    "tests/judge/test_sparse.py::test_a_mutant_is_found_out": (12, 14),
    "tests/judge/test_sparse.py::test_what_is_right_is_not_accused[plain]": (0, 2),
    "tests/judge/test_sparse.py::test_what_is_right_is_not_accused": (9, 20),
    "tests/judge/test_sparse.py::test_a_case_of_a_report_can_be_asked_again": (0, 3),
    "tests/judge/test_sparse.py::test_a_shared_library_conforms": (0, 3),
    "tests/judge/test_sparse.py::test_strategies_give_codes_of_the_format": (9, 6),
    "tests/test_attacks.py::test_an_attack_fails": (12, 45),
    "tests/test_lint_against.py::test_what_follows_any_profile_is_clean": (16, 14),
    "tests/test_lint_against.py::test_planted_fault_is_named_and_explains_every_element": (8, 15),
    "tests/test_lint_against.py::test_fused_layers_share_the_scale_of_their_maximum": (0, 1),
    "tests/test_lint_against.py::test_files_of_the_libraries_follow_their_own_profiles": (3, 3),
    "tests/test_lint_against.py::test_a_rule_that_nobody_knows_is_right": (0, 1),
    "tests/test_quantize.py::test_every_profile_has_a_digest": (0, 2),
    "tests/test_quantize.py::test_any_profile": (3, 2),
    "tests/test_quantize.py::test_a_conversion_keeps_the_contract": (3, 2),
    "tests/test_lint_against.py::test_quantized_twice": (4, 5),
    "tests/test_quantize.py::test_a_killed_command_goes_on": (0, 4),
    "tests/test_quantize.py::test_every_convention_there_and_back": (6, 9),
    "tests/test_quantize.py::test_a_run_that_stops_anywhere_goes_on_to_the_same_bytes": (3, 3),
    "tests/test_false_alarm.py::test_outsiders_conform": (0, 12),
    "tests/test_known.py::test_library_equals_its_profiles[mlx]": (0, 5),
    "tests/judge/test_tensor_scale.py::test_kinds_of_tensor_scale": (0, 6),
    "tests/judge/test_results.py::test_results_follow_their_schema_and_repeat": (0, 8),
    "tests/judge/test_catalogue.py::test_a_bug_fails_what_it_must_and_nothing_that_it_may_not": (48, 59),
    "tests/test_independent.py::test_table_says_what_the_judge_says": (0, 400),
    "tests/judge/test_verdicts.py::test_five_lines_conform_everywhere": (0, 9),
    "tests/test_judge_layouts.py::test_the_model_passes_every_requirement": (0, 10),
    "tests/test_transports_all.py::test_any_python_target_goes_over_the_process_transport": (0, 13),
    "tests/test_open_choices.py::test_every_combination_of_open_choices_passes": (0, 60),
    "tests/test_transports_same.py::test_the_bundle_depends_on_the_capabilities_alone": (0, 14),
    "tests/test_plugin.py::test_what_is_judged_was_listed": (0, 17),
    "tests/test_mutants.py::test_the_quick_level_accuses_nobody_and_finds_the_profile": (6, 24),
    "tests/test_mutants.py::test_the_unchanged_implementation_passes_single_numbers_and_places": (0, 17),
    "tests/test_mutants.py::test_the_unchanged_implementation_passes": (0, 60),
    "tests/test_transports_same.py::test_results_file": (0, 40),
    "tests/test_false_alarm.py::test_the_exact_model_passes_every_profile": (0, 110),
    # The exact model on thousands of blocks.
    "tests/test_false_alarm.py::test_exact_values_pass[mxfp4]": (0, 5),
    "tests/test_false_alarm.py::test_exact_values_pass[nvfp4]": (0, 12),
    "tests/test_false_alarm.py::test_exact_scalars_pass": (0, 86),
    "tests/test_profiles.py::test_special_blocks": (64, 12),
    "tests/test_profiles.py::test_drawn_blocks": (12, 8),
    "tests/test_profiles.py::test_sampled_blocks": (12, 8),
    "tests/test_profiles.py::test_dequantize_every_code": (12, 8),
    "tests/test_fast.py::test_tuned_quantize_is_the_expression": (4, 4),
    "tests/test_fast.py::test_tuned_dequantize_is_the_expression": (4, 3),
    "tests/test_exhaustive.py::test_every_sixteen_bit_number": (4, 3),
    "tests/test_exhaustive.py::test_every_sixteen_bit_number_stochastically": (4, 6),
    "tests/test_exhaustive.py::test_values_midpoints_and_their_neighbours": (4, 5),
    "tests/test_gpu_arithmetic.py::test_quantize_random": (8, 14),
    "tests/test_gpu_arithmetic.py::test_quantize_thresholds": (4, 9),
    "tests/test_gpu_arithmetic.py::test_quantize_all_16_bit_numbers": (4, 6),
    "tests/test_stepfunctions.py::test_scale_steps_of_both_models_are_what_blocks_get": (9, 7),
    "tests/test_explain.py::TestDifference::test_any_answer_is_told": (9, 5),
    "tests/test_explain.py::TestBits::test_drawings_fit": (9, 4),
    "tests/test_explain.py::TestPartings::test_any_two_profiles": (9, 4),
    "tests/test_elements.py::test_encode_at_every_threshold": (4, 4),
    "tests/test_exhaustive.py::test_every_nan_policy": (4, 2),
    "tests/test_explain.py::TestBits::test_codes_are_those_of_both_models": (12, 8),
    "tests/test_expressions.py::test_rounded_operations_on_special_numbers": (4, 7),
    "tests/test_blocks.py::test_input_dtypes": (8, 6),
    "tests/test_blocks.py::test_outputs_are_rounded_once": (4, 6),
    "tests/test_elements_given_scale.py::test_under_any_scale_it_is_the_exact_model": (4, 6),
    # Hundreds of wrong targets, and many right ones.
    "tests/test_mutants.py::test_a_mutant_is_found_out": (16, 165),
    "tests/judge/test_catalogue.py::test_a_target_that_answers_nothing_is_right_nowhere": (3, 5),
    "tests/judge/test_catalogue.py::test_what_ocp_leaves_open_passes": (12, 8),
    "tests/judge/test_nearest.py::test_another_scale_rule_is_found_and_deviates_from_the_one_asked_for": (0, 3),
    "tests/judge/test_nearest.py::test_scales_by_a_float_log2_are_named": (0, 7),
    "tests/judge/test_catalogue.py::test_right_but_unusual_passes": (24, 25),
    "tests/judge/test_tensor_scale.py::test_the_wrong_kind_of_tensor_scale_is_named": (12, 18),
    "tests/judge/test_causes.py::test_a_cause_is_named": (8, 9),
    "tests/judge/test_causes.py::test_of_right_targets_no_cause_is_named": (4, 3),
    "tests/judge/test_causes.py::test_failing_cases_never_exceed_those_asked_and_what_was_asked_is_not_called_nearest": (4, 3),
    # Each judges a million draws.
    "tests/judge/test_own_generator.py::test_bugs_are_caught": (12, 4),
    "tests/judge/test_own_generator.py::test_every_convention_passes": (12, 17),
    "tests/judge/test_own_generator.py::test_every_format_passes": (0, 8),
    "tests/judge/test_own_generator.py::test_what_libraries_do_passes": (0, 3),
    "tests/judge/test_own_generator.py::test_what_gfloat_does_passes": (0, 14),
    "tests/judge/test_own_generator.py::test_one_without_a_seed_is_judged_by_single_calls": (0, 3),
    "tests/judge/test_own_generator.py::test_int8_may_use_its_lowest_code": (0, 2),
    "tests/judge/test_own_generator.py::test_other_dtypes_pass": (0, 3),
    "tests/judge/test_own_generator.py::test_with_a_tensor_scale": (0, 4),
    "tests/judge/test_own_generator.py::test_other_scales_pass": (0, 3),
    "tests/judge/test_own_generator.py::test_counts_of_ten_thousand_right_runs_are_not_accused": (0, 5),
    "tests/test_registered_block.py::test_a_target_is_judged_in_it": (0, 5),
    "tests/judge/test_random_bits.py::test_the_same_verdicts_in_a_child_and_a_program": (2, 2),
    "tests/judge/test_random_bits.py::test_every_convention_passes": (4, 2),
    "tests/test_stochastic_blocks.py::test_arrays_are_the_definition_in_every_profile": (0, 8),
    "tests/judge/test_random_bits.py::test_every_misuse_of_the_words_fails": (4, 3),
    "tests/judge/test_random_bits.py::test_the_model_passes_in_every_shape_of_call": (0, 3),
    "tests/judge/test_evidence.py::test_conventions_of_random_bits": (5, 3),
    "tests/judge/test_evidence.py::test_what_fails_shows_its_input_and_both_answers": (18, 6),
    "tests/judge/test_scale_search.py::test_a_search_is_not_accused_and_its_error_is_told": (4, 4),
    "tests/test_texts.py::test_no_text_spoils_a_report": (12, 60),
    "tests/test_mutants.py::test_each_mechanical_change_changes_one_place": (5, 3),
    "tests/test_mutants.py::test_the_unchanged_implementation_rounds_stochastically": (0, 6),
    "tests/test_independent.py::test_right_implementation_passes": (30, 6),
    "tests/test_independent_calls.py::test_a_bug_changes_an_answer": (16, 8),
    "tests/test_independent_calls.py::test_a_right_implementation_equals_its_profile": (4, 4),
    # What takes seconds and is held by smaller tests as well.
    "tests/test_fuzz.py::test_planted_bug_is_found_shrunk_and_named": (10, 8),
    "tests/test_fuzz.py::test_the_model_is_never_accused": (4, 5),
    "tests/test_blocks.py::test_random_bits": (8, 7),
    "tests/judge/test_scale_search.py::test_a_rule_that_is_off_by_a_constant_is_no_search": (4, 5),
    "tests/test_docs.py::test_python_that_is_shown_runs": (0, 6),
    "tests/test_strategies.py::test_the_examples_of_the_documentation_run": (0, 6),
    "tests/test_identify_products.py::test_the_command": (0, 5),
    "tests/test_score_tests.py::test_the_command_scores_a_rule_and_writes_a_patch_that_runs": (0, 5),
    "tests/test_doors.py::test_json_is_read_as_it_is": (0, 5),
    "tests/test_dot.py::test_a_class_holds_all_that_its_accumulations_give": (4, 5),
    "tests/test_explain.py::TestBits::test_scalars_are_those_of_encode": (4, 4),
    "tests/test_campaign_reports.py::test_proofs_digests_are_those_of_the_profile_as_it_is_now": (3, 4),
    "tests/test_vector_growth.py::test_evidence_outlives_a_new_profile": (3, 4),
    "tests/judge/test_number_states.py::test_tensor_scales_are_not_remembered": (0, 4),
    "tests/test_stochastic.py::test_every_byte_at_directed_points": (0, 4),
    "tests/test_sparse_vectors.py::test_patterns_that_keep_the_largest": (4, 4),
    "tests/judge/test_nearest.py::test_scales_by_the_float_log2_of_a_library_are_named": (2, 3),
    "tests/test_exhaustive.py::test_sixteen_bit_numbers_widen_exactly": (2, 3),
    "tests/test_transports_affine.py::test_a_c_kernel_and_its_mistakes": (3, 3),
    "tests/test_identify.py::test_command_identify": (0, 3),
    "tests/test_show.py::test_every_failing_case_of_a_report_opens_and_differs_again": (0, 3),
    "tests/test_cli.py::test_every_profile_is_shown_on_80_columns": (0, 3),
    "tests/test_sparse_tensor.py::test_the_largest_by_brute_force": (0, 3),
    "tests/test_open_choices.py::test_no_choice_is_open_for_ordinary_blocks": (4, 7),
    "tests/test_strategies_products.py::test_every_class_of_operands_is_reached": (8, 25),
    "tests/test_strategies_products.py::test_numbers_cancel": (4, 8),
    "tests/test_strategies_products.py::test_a_failing_product_shrinks_to_ones": (4, 6),
    "tests/test_strategies_products.py::test_a_dropped_k_shrinks_to_one_number": (0, 4),
    "tests/test_new_library.py::test_every_committed_result_stays_as_it_was": (0, 6),
    "tests/judge/test_only.py::test_the_targets_are_of_all_kinds": (0, 5),
    "tests/judge/test_capabilities.py::test_keywords_are_capabilities": (0, 4),
    "tests/test_evidence.py::test_the_command_lists_them": (0, 4),
    "tests/test_transports_docs.py::test_the_shared_library_compiles_and_is_judged": (0, 3),
    "tests/test_kits.py::test_the_pytest_file_runs_alone": (0, 3),
    "tests/test_plugin.py::test_workers_are_handed_the_result_and_it_is_written": (0, 3),
    "tests/test_transports_products.py::test_a_bundle_holds_products": (0, 3),
    "tests/test_diff.py::test_command": (0, 3),
    "tests/test_vectors.py::test_default_profiles_are_exported": (0, 3),
    "tests/test_transports_faults.py::test_a_faulty_library": (3, 4),
    "tests/test_prove.py::test_expected_answers_are_the_exact_models": (3, 3),
    "tests/judge/test_verdicts.py::test_only_format_and_profile": (0, 4),
    "tests/test_acceptance.py::test_nan_blocks": (3, 3),
    # What is committed, again.
    "tests/test_vectors.py::test_committed_file_is_what_the_model_gives": (12, 31),
    "tests/test_vectors.py::test_build_all_is_the_files_and_their_index": (0, 20),
    "tests/test_vectors.py::test_bytes_are_canonical": (4, 7),
    "tests/test_vectors.py::test_quantize_answers_are_exact": (12, 13),
    "tests/test_vectors.py::test_stochastic_answers_are_exact": (6, 7),
    "tests/test_vectors.py::test_schema": (4, 6),
    "tests/test_vector_recipes.py::test_what_is_stored_is_what_is_read": (4, 7),
    "tests/test_vector_recipes.py::test_readme_reads_quantize": (0, 6),
    "tests/test_vector_recipes.py::test_cpp_expands_every_file_to_the_same": (0, 5),
    "tests/test_sweep.py::test_committed_results_are_those_of_the_models_now": (0, 16),
    # Many files, many processes, real libraries.
    "tests/test_lint.py::test_mutated_files_do_no_harm": (0, 15),
    "tests/test_known.py::test_library_equals_its_profiles[gfloat]": (0, 6),
    "tests/test_transports_same.py::test_process": (0, 10),
    "tests/test_transports_same.py::test_shared_library": (0, 10),
    "tests/test_sweep.py::test_interrupted_command_with_workers_keeps_finished_functions": (0, 8),
    "tests/test_identify.py::test_real_libraries_are_named[mlx-expected1]": (0, 4),
    "tests/test_gpu_compile.py::test_compiles_without_spills": (12, 7),
    "tests/test_gpu_compile.py::test_holds_the_instructions": (12, 7),
    "tests/test_gpu_compile.py::test_keeps_subnormals": (12, 5),
    "tests/judge/test_rewording.py::test_no_verdict_hangs_on_a_word": (0, 42),
    # One each, of several seconds.
    "tests/test_transports_same.py::test_a_broken_one_differs_in_ties_alone": (0, 14),
    "tests/judge/test_verdicts.py::test_ties_away_fail_the_ties_and_nothing_else": (0, 9),
    "tests/judge/test_processes.py::test_a_hang_on_infinity_spoils_nothing_else": (0, 8),
    "tests/test_gpu_arithmetic.py::test_encode": (0, 20),
    "tests/test_strategies.py::test_a_failing_block_shrinks_to_few_simple_numbers": (0, 6),
    "tests/test_known.py::test_library_equals_its_profiles[mlx-bfloat16]": (0, 5),
    "tests/test_cli.py::test_a_verdict_on_80_columns": (0, 5),
    "tests/test_cli.py::test_check_writes_what_its_schema_says": (0, 5),
    "tests/test_cli.py::test_truncated_and_missing_files_are_found": (0, 5),
    "tests/test_cli.py::test_exit_codes_of_several_targets": (0, 4),
    "tests/test_mutants.py::test_the_command_lists_judges_and_fails_on_survivors": (0, 4),
    "tests/test_registered_block.py::test_a_target_in_rows_of_128_is_judged": (0, 5),
    "tests/test_screen.py::test_check_at_80_columns": (0, 8),
    "tests/test_blocks.py::test_the_tile_case_of_the_vectors": (0, 4),
    "tests/judge/test_capabilities.py::test_quantize_may_return_its_layout": (3, 7),
    "tests/test_identify.py::test_real_libraries_are_named[gguf-expected0]": (0, 3),
    "tests/test_judge_layouts.py::test_unlisted_layouts_may_be_refused": (0, 3),
    "tests/test_fuzz.py::test_a_target_that_crashes_on_large_calls_is_a_verdict_and_the_rest_is_judged": (0, 3),
    "tests/test_fuzz.py::test_the_profile_that_explains_most_is_chosen": (0, 4),
    "tests/test_independent_calls.py::test_the_command_judges_and_writes_what_it_used": (0, 3),
    "tests/judge/test_results.py::test_a_child_and_this_process_agree": (0, 3),
    "tests/judge/test_results.py::test_progress_is_told": (0, 3),
    "tests/judge/test_products.py::test_wrong_kernels_fail[float16 additions, not declared]": (0, 7),
    "tests/test_known.py::test_library_equals_its_profiles[mlx-float16]": (0, 5),
    "tests/judge/test_catalogue.py::test_what_ocp_leaves_open_passes[smallest scale 01]": (0, 5),
    "tests/judge/test_tensor_scale.py::test_the_wrong_kind_of_tensor_scale_is_named[encode-amax]": (0, 4),
    "tests/judge/test_only.py::test_a_part_has_the_verdicts_of_the_whole": (12, 13),
    "tests/test_mutants.py::test_the_quick_level_accuses_nobody_and_finds_the_profile[mx-floor]": (0, 4),
}

#: Of a test function with many parameter sets the coverage of every so many is measured: the others run through the same
#: lines, and measuring them would double their time.
MEASURED = 8
MANY = 2 * MEASURED


#: Rows that name no test of the files that were collected.
STALE_ROWS = pytest.StashKey[list[str]]()


def family_of(nodeid: str) -> str:
    """The test function of a test."""
    return nodeid.partition("[")[0]


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark what is long, and what is not measured."""
    sizes = Counter(family_of(item.nodeid) for item in items)
    places: defaultdict[str, int] = defaultdict(int)
    for item in items:
        family = family_of(item.nodeid)
        place = places[family]
        places[family] += 1
        keep, _ = LONG.get(item.nodeid) or LONG.get(family) or (1, 0)
        if not keep or place % keep:
            item.add_marker("long")
        elif keep > 1:  # the others run through the same lines in `make test-long`
            item.add_marker("no_cover")
        if sizes[family] > MANY and place % MEASURED:
            item.add_marker("no_cover")


def list_stale(items: Sequence[pytest.Item]) -> list[str]:
    """Rows that name no test, of the files that were collected."""
    known = {name for item in items for name in (item.nodeid, family_of(item.nodeid))}
    files = {item.nodeid.partition("::")[0] for item in items}
    return [name for name in LONG if name not in known and name.partition("::")[0] in files]
