"""Each test has one tier, which follows from where the test lies and from what it asks for.

In:  a test's path, name, markers and fixtures.
Out: `unit`, `redis`, `process`, `e2e` or `model`.

A marker on a test or a module (`pytestmark = pytest.mark.process`) comes first, then the longest entry of `PLACES`.
For what neither names, the fixtures decide: `redis` with a server of its own, else `unit`.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

TIERS = {
    "unit": "needs nothing but this process",
    "redis": "needs a redis-server besides",
    "process": "starts processes or a sandbox, or works for seconds",
    "e2e": "whole runs, started as users start them",
    "model": "loads or trains a model",
}
FAST = ("unit", "redis")
REDIS_FIXTURES = {"_shared_redis"}

PLACES = {
    "tests/e2e/": "e2e",
    "tests/benchmarks/test_exact_resume.py": "e2e",
    "tests/compatibility/": "e2e",
    "tests/generators/engines/": "model",
    "tests/learner/base_model/": "model",
    "tests/learner/training/": "model",
    "tests/learner/objective/": "model",
    "tests/tools/test_demo_model.py": "model",
    "tests/tools/export/": "model",
    "tests/tools/think_template/": "model",
    "tests/learner/data/test_chat_template.py": "model",
    "tests/courier/": "model",
    "tests/generators/test_chat.py": "model",
    "tests/generators/test_decoding.py": "model",
    "tests/learner/test_seams.py": "model",
    "tests/benchmarks/": "process",
    "tests/broker/private_redis/": "process",
    "tests/deploy/test_slurm.py": "process",
    "tests/broker/test_connection.py": "process",
    "tests/broker/test_redis_client.py": "process",
    "tests/broker/test_processes.py": "process",
    "tests/config/test_entry_points.py": "process",
    "tests/docs/test_redis_cli_page.py": "process",
    "tests/docs/test_scorers_page.py": "process",
    "tests/generators/test_processes.py": "process",
    "tests/learner/launch/": "process",
    "tests/learner/reporting/test_metrics.py": "process",
    "tests/learner/reporting/test_loggers.py": "process",
    "tests/learner/reporting/test_full_tensorboard.py": "process",
    "tests/learner/resume/test_recovery.py": "process",
    "tests/learner/test_main.py": "process",
    "tests/learner/test_session.py": "process",
    "tests/protocol/": "process",
    "tests/scorers/child/": "process",
    "tests/scorers/code/": "process",
    "tests/scorers/gold/": "process",
    "tests/scorers/gym/test_every_data_set.py": "process",
    "tests/scorers/pool/": "process",
    "tests/scorers/reward_server/": "process",
    "tests/scorers/sandbox/": "process",
    "tests/scorers/simulation/": "process",
    "tests/scorers/swe/": "process",
    "tests/scorers/test_api.py": "process",
    "tests/scorers/test_export.py": "process",
    "tests/scorers/test_group.py": "process",
    "tests/scorers/verl_function/": "process",
    "tests/scorers/test_self_tests.py": "process",
    "tests/tools/chaos/": "process",
    "tests/tools/data/": "process",
    "tests/tools/difficulty/test_command.py": "process",
    "tests/learner/collect/": "process",
    "tests/tools/judge_check/": "process",
    "tests/tools/metrics/": "process",
    "tests/tools/prepare/": "process",
    "tests/tools/replay/": "process",
    "tests/tools/rescore/": "process",
    "tests/tools/score/": "process",
    "tests/tools/test_commands.py": "process",
    "tests/tools/test_completion.py": "process",
    "tests/tasks/test_kinds.py::test_a_scorer_is_added_by_its_folder_its_section_and_one_declaration": "process",
    "tests/tools/run_view/test_bottleneck_of_runs.py": "process",
    "tests/tools/up/": "process",
    "tests/tools/doctor/test_light.py": "process",
    "tests/learner/data/test_dataset.py::test_rows_of_a_question_and_an_answer_get_the_keys_that_read_them": "process",
    # No process is started here, but these work for seconds.
    "tests/generators/test_worker.py": "process",
    "tests/generators/weight_sync/": "process",
    "tests/learner/groups/test_feeder.py": "process",
    "tests/tools/journal/": "process",
    "tests/learner/groups/test_selection.py": "process",
    "tests/learner/journal/test_payloads.py": "process",
    "tests/learner/journal/test_ledger.py": "process",
    "tests/learner/resume/test_config_changes.py": "process",
    "tests/scorers/judge/test_scorer.py": "process",
    "tests/scorers/livebench/test_scorer.py::test_no_text_is_slow": "process",
    "tests/scorers/instructions/test_scorer.py::test_hostile_texts_take_linear_time": "process",
    "tests/scorers/math/test_corpus.py": "process",
    "tests/scorers/math/test_forms.py": "process",
    "tests/scorers/test_prompts_of_domains.py": "process",
    "tests/docs/test_pages_commands.py": "process",
    "tests/learner/groups/test_working_time.py": "process",
    "tests/learner/resume/test_history.py": "process",
    "tests/learner/resume/test_refused_start.py": "process",
    "tests/scorers/logic/test_scorer.py": "process",
    "tests/scorers/math/test_golden.py": "process",
    "tests/scorers/math/test_metamorphic.py": "process",
    "tests/scorers/math/test_scorer.py": "process",
    "tests/scorers/math/test_spellings.py": "process",
    "tests/scorers/rubric/test_scorer.py": "process",
    "tests/scorers/served_model/": "process",
    "tests/scorers/test_data_sets.py": "process",
    "tests/scorers/test_growth.py": "process",
    "tests/scorers/test_rules.py": "process",
    "tests/scorers/text/test_extract.py::test_no_text_makes_extraction_slow": "process",
    "tests/test_map.py::test_config_and_broker_load_no_heavy_library_through_others": "process",
    "tests/test_rules_for_tests.py": "process",
    "tests/tools/trace/": "process",
}

# The files of these folders begin with the same imports, or fork from one process that has them.
TOGETHER = ("tests/learner/training/", "tests/generators/engines/vllm/")
# These read the whole source, which one worker does once.
OF_THE_SOURCE = ("tests/test_map.py", "tests/test_rules_for_tests.py", "tests/scorers/test_rules.py")

# What `make test` leaves out, with the command that runs it. A sample of each stays in the suite.
PROOFS = {
    "tests/e2e/test_direct_weights.py::"
    "test_a_run_takes_its_weights_directly_loses_a_generator_and_its_audit_is_clean": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::"
    "test_two_generators_are_sent_each_version_bit_for_bit[ipc]": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::"
    "test_a_member_that_is_killed_in_a_bucket_and_one_that_joins_late_cost_a_round": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::"
    "test_members_of_a_learner_that_is_killed_in_a_bucket_read_the_file": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::"
    "test_a_newer_version_makes_a_round_void_and_the_epoch_stays": "prove-suite",
    **{
        "tests/tools/difficulty/test_command.py::"
        f"test_files_are_the_same_bytes_whether_everything_is_killed_twice_or_never[{engine}]": "prove-suite"
        for engine in ("scripted", "hf")
    },
    "tests/compatibility/test_92978da.py::test_every_step_is_trained_again_offline": "prove-suite",
    "tests/compatibility/test_92978da.py::test_a_version_that_only_its_journal_has_is_exported": "prove-suite",
    "tests/tools/prepare/test_command.py::test_the_templates_own_test_passes": "prove-suite",
    "tests/tools/data/test_command.py::test_data_of_which_every_row_can_be_used_are_said_to_be_so": "prove-suite",
    "tests/tools/data/test_command.py::"
    "test_a_run_with_the_gold_test_trains_on_none_of_the_rows_that_fail_it": "prove-suite",
    "tests/tools/prepare/test_sources.py::"
    "test_the_real_mbpp_has_the_tasks_of_each_split_and_their_solutions_pass": "prove-suite",
    "tests/learner/training/test_attention.py::test_so_do_others_and_an_adapter": "prove-suite",
    "tests/learner/training/test_attention.py::test_a_row_over_two_ranks_trains_so_too": "prove-suite",
    "tests/learner/training/test_sequence_parallel.py::"
    "test_so_do_they_with_every_other_kind_of_pass": "prove-suite",
    "tests/learner/training/test_sequence_parallel.py::"
    "test_a_mesh_lies_beside_data_parallel_ranks": "prove-suite",
    "tests/benchmarks/test_benchmarks.py::test_every_benchmark_runs_and_its_numbers_are_positive": "prove-suite",
    "tests/benchmarks/test_exact_resume.py::"
    "test_a_learner_that_was_killed_once_has_the_weights_of_one_that_was_not": "prove-suite",
    "tests/benchmarks/test_exact_resume.py::"
    "test_a_learner_that_was_killed_three_times_has_the_weights_of_one_that_was_not": "prove-suite",
    "tests/benchmarks/test_weight_delta.py::"
    "test_deltas_of_a_small_model_arrive_bit_for_bit_near_their_entropy_and_by_redis": "prove-suite",
    "tests/benchmarks/test_gpu_proof.py::test_the_whole_cpu_form_passes": "prove-suite",
    "tests/benchmarks/test_kills.py::test_two_kills_of_each_role_lose_nothing_and_double_nothing": "prove-suite",
    "tests/e2e/test_chaos_command.py::"
    "test_a_run_under_every_kind_of_disturbance_is_drained_after_the_minutes_and_its_audit_is_clean": "prove-suite",
    "tests/e2e/test_coming_and_going.py::test_two_generators_and_four_scorers_start_and_stop_during_a_run": "prove-suite",
    "tests/e2e/test_dumps.py::test_no_kill_costs_a_dump_or_writes_one_twice": "prove-suite",
    "tests/e2e/test_epochs.py::"
    "test_each_row_has_an_outcome_for_each_epoch_and_every_step_its_rate": "prove-suite",
    "tests/deploy/test_wheel.py::test_the_demo_runs_from_the_wheel_in_an_empty_folder": "prove-suite",
    "tests/e2e/test_own_reward.py::"
    "test_readmes_own_reward_trains_as_it_stands_beside_modules_of_our_names": "prove-suite",
    "tests/e2e/test_evaluate.py::"
    "test_a_known_share_of_right_answers_is_what_an_evaluation_finds": "prove-suite",
    "tests/e2e/test_evaluate.py::"
    "test_an_evaluation_that_is_killed_and_goes_on_leaves_the_same_bytes": "prove-suite",
    "tests/e2e/test_evaluate.py::"
    "test_the_versions_of_a_run_are_evaluated_while_it_trains_each_by_itself": "prove-suite",
    "tests/e2e/test_full_volume.py::test_a_volume_filled_to_the_last_byte_stops_the_learner_and_costs_nothing": "prove-suite",
    "tests/e2e/test_import.py::test_a_configuration_of_ii_verl_trains_two_steps_at_its_own_reward_server": "prove-suite",
    "tests/e2e/test_import.py::test_the_documents_configuration_of_ii_verl_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_a_published_script_of_gsm8k_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_the_documents_call_of_main_ppo_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_the_documents_yaml_by_its_command_line_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_a_script_of_the_rubric_model_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_the_documents_script_of_the_rubric_model_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_a_verl_users_afternoon_from_script_and_parquet_to_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_a_slurm_script_of_reasoning360_trains_two_steps": "prove-suite",
    "tests/e2e/test_import.py::test_a_reward_file_of_ones_own_trains_two_steps": "prove-suite",
    "tests/e2e/test_lag.py::test_a_generator_twenty_times_slower_never_pushes_a_token_beyond_max_lag": "prove-suite",
    "tests/e2e/test_objectives.py::test_a_run_trains_is_audited_and_is_trained_again_bit_for_bit": "prove-suite",
    "tests/e2e/test_outages.py::"
    "test_a_full_disk_stops_the_learner_with_a_reason_and_nothing_is_acknowledged": "prove-suite",
    "tests/e2e/test_outages.py::test_redis_gone_for_twenty_seconds_costs_time_and_nothing_else": "prove-suite",
    "tests/e2e/test_real_data.py::test_gsm8k_trains_three_steps_and_counts_what_is_too_long": "prove-suite",
    "tests/e2e/test_real_data.py::"
    "test_a_run_of_nothing_but_variance_free_groups_stops_and_says_why": "prove-suite",
    "tests/e2e/test_real_data.py::"
    "test_rows_of_ii_thoughts_shape_train_beside_garbage_in_every_stream": "prove-suite",
    "tests/e2e/test_redis_restart.py::"
    "test_a_redis_that_was_away_and_a_redis_that_was_emptied_cost_no_group": "prove-suite",
    "tests/e2e/test_redis_restart.py::"
    "test_a_full_redis_lets_out_what_is_there_says_what_it_needs_and_drops_nothing": "prove-suite",
    "tests/e2e/test_redis_restart.py::"
    "test_an_older_replica_and_another_redis_in_its_place_cost_no_group": "prove-suite",
    "tests/e2e/test_stopping.py::test_a_run_is_paused_killed_changed_gone_on_with_and_drained": "prove-suite",
    "tests/generators/engines/vllm/test_death.py::test_a_generator_that_is_killed_takes_all_of_vllm_with_it": "prove-suite",
    "tests/generators/engines/vllm/test_tensor_parallel.py::"
    "test_two_workers_sample_and_update_as_one_and_come_back_after_a_death": "prove-suite",
    "tests/generators/engines/vllm/test_kept_cache.py::"
    "test_each_logprob_is_the_samplers_own_and_later_completions_see_no_older_block": "prove-suite",
    "tests/generators/engines/vllm/test_engine.py::"
    "test_requests_that_are_longer_than_a_batch_survive_one_update_after_the_other": "prove-suite",
    "tests/generators/engines/vllm/test_engine.py::"
    "test_whatever_a_judge_on_vllm_babbles_no_score_is_invented": "prove-suite",
    "tests/generators/engines/vllm/test_engine.py::"
    "test_whatever_a_rubric_model_on_vllm_babbles_no_grade_is_invented": "prove-suite",
    "tests/generators/weight_sync/test_relayed_at_random.py::test_nor_with_many_more_seeds": "prove-suite",
    "tests/compatibility/test_92978da.py::"
    "test_the_run_goes_on_from_its_checkpoint_its_journal_and_its_streams": "prove-suite",
    "tests/generators/engines/vllm/test_engine.py::"
    "test_thoughts_that_vllm_tells_from_the_reply_are_none": "prove-suite",
    "tests/benchmarks/test_mbpp.py::test_sample_of_references_passes_and_no_mutant_does": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::"
    "test_a_generator_whose_courier_hangs_three_times_asks_no_more": "prove-suite",
    "tests/learner/test_session.py::"
    "test_a_folder_without_a_model_ends_the_program_with_the_reason_in_both_places": "prove-suite",
    "tests/scorers/pool/test_tls.py::test_a_pool_dispatches_and_scores_by_tls": "prove-suite",
    "tests/docs/test_scorers_page.py::test_the_ten_lines_are_ten_and_score_as_the_page_says": "prove-suite",
    "tests/e2e/test_import.py::test_a_configuration_of_grpo_trains_two_steps": "prove-suite",
    "tests/generators/engines/vllm/test_engine.py::"
    "test_completions_under_way_may_end_before_new_weights_come": "prove-suite",
    "tests/generators/test_processes.py::"
    "test_a_generator_that_stood_still_for_longer_than_its_lease_counts_no_more": "prove-suite",
    "tests/generators/weight_sync/test_direct.py::test_a_collective_that_hangs_for_ever_holds_up_nobody": "prove-suite",
    "tests/learner/reporting/test_full_tensorboard.py::"
    "test_a_full_disk_is_said_by_the_next_step_and_the_process_ends": "prove-suite",
    "tests/learner/test_session.py::"
    "test_a_signal_while_the_journals_steps_are_trained_again_does_not_wait_for_all_of_them": "prove-suite",
    "tests/learner/training/test_engine_options.py::"
    "test_float16_follows_float32_at_a_scale_that_its_gradients_bear": "prove-suite",
    "tests/scorers/gold/test_examiner.py::"
    "test_a_program_is_tested_where_the_row_has_one_beside_its_tests": "prove-suite",
    "tests/scorers/gold/test_examiner.py::test_the_half_of_a_program_that_is_asked_for_is_the_reference": "prove-suite",
    "tests/scorers/pool/test_lost_workers.py::"
    "test_a_worker_that_stood_still_for_longer_than_its_lease_counts_no_more": "prove-suite",
    "tests/scorers/pool/test_putting_off.py::test_a_real_pool_scores_what_it_puts_off": "prove-suite",
    "tests/scorers/pool/test_supervisor.py::test_a_real_worker_says_when_it_is_ready": "prove-suite",
    "tests/scorers/rows/test_many.py::test_a_judge_that_the_caller_names_is_asked": "prove-suite",
    "tests/scorers/rows/test_many.py::test_a_judges_calls_are_under_way_together_beside_other_rows": "prove-suite",
    "tests/scorers/rows/test_many.py::"
    "test_processes_stay_for_the_next_call_and_for_every_thread_and_a_fork_has_its_own": "prove-suite",
    "tests/scorers/sandbox/server/test_service.py::"
    "test_a_killed_process_is_no_result_and_the_next_call_works": "prove-suite",
    "tests/scorers/swe/test_trial.py::"
    "test_a_fraction_of_the_tests_pays_where_the_run_says_so_and_hanging_pays_nothing": "prove-suite",
    "tests/scorers/test_api.py::"
    "test_a_killed_worker_is_started_again_and_a_row_that_kills_each_is_unscorable": "prove-suite",
    "tests/scorers/test_api.py::"
    "test_its_worker_loads_what_is_heavy_and_ends_with_the_program_that_asked": "prove-suite",
    "tests/tools/data/test_command.py::test_the_table_is_for_people": "prove-suite",
    "tests/tools/difficulty/test_command.py::"
    "test_each_of_several_sources_has_a_file_with_every_row_once": "prove-suite",
    "tests/tools/difficulty/test_command.py::"
    "test_rows_of_another_set_are_not_taken_for_those_that_are_wanted": "prove-suite",
    "tests/tools/evaluate/test_recipes.py::test_every_tasks_rows_are_found_and_reach_their_scorer": "prove-suite",
    "tests/tools/prepare/test_published.py::"
    "test_a_row_whose_reference_fails_lies_in_a_file_with_its_reason": "prove-suite",
    "tests/tools/prepare/test_puzzles.py::test_there_are_reasoning360s_61_sizes_and_a_puzzle_of_each": "prove-suite",
    "tests/tools/rescore/test_command.py::test_another_scorer_is_compared_with_the_runs_own": "prove-suite",
    "tests/tools/score/test_command.py::"
    "test_a_program_at_the_other_end_of_two_pipes_gets_each_result_before_it_asks_again": "prove-suite",
    "tests/tools/score/test_command.py::test_a_terminal_shows_a_bar_and_then_the_summary": "prove-suite",
    "tests/tools/score/test_judged_lines.py::"
    "test_a_group_that_is_rescored_has_its_calls_under_way_together": "prove-suite",
    "tests/tools/score/test_judged_lines.py::"
    "test_the_judges_calls_are_under_way_side_by_side_beside_other_lines": "prove-suite",
    "tests/tools/up/test_full_disk.py::"
    "test_a_disk_that_fills_is_said_in_the_terminal_at_once_and_ends_the_run": "prove-suite",
    "tests/docs/test_scorers_page.py::test_every_program_of_the_page_runs": "prove-suite",
    "tests/scorers/code/test_names.py::"
    "test_every_row_of_mbpp_is_read_and_asks_for_what_its_reference_defines": "prove-suite",
    "tests/tools/score/test_command.py::test_results_are_in_order_whatever_each_takes": "prove-suite",
    "tests/tools/score/test_command.py::test_a_reader_that_has_seen_enough_is_no_error": "prove-suite",
    "tests/learner/training/test_process_group.py::test_a_learner_of_one_rank_listens_on_loopback_alone": "prove-suite",
    "tests/e2e/test_kept_weights.py::"
    "test_what_was_trained_is_what_both_libraries_load_wherever_it_was_written": "prove-suite",
    "tests/tools/doctor/test_run.py::"
    "test_settings_that_an_engine_refuses_are_said_before_the_start": "prove-suite",
    **{
        f"tests/learner/training/test_deepspeed.py::{name}": "prove-suite"
        for name in (
            "test_a_step_is_the_token_mean_of_the_global_batch_whatever_the_ranks_rows_and_partitioning[split-zero-3]",
            (
                "test_a_step_is_the_token_mean_of_the_global_batch_whatever_the_ranks_rows_and_partitioning"
                "[split-one-row-of-two]"
            ),
            "test_a_fresh_process_goes_on_from_a_checkpoint_bit_for_bit_whatever_its_own_settings[split_again-zero-3]",
            (
                "test_a_fresh_process_goes_on_from_a_checkpoint_bit_for_bit_whatever_its_own_settings"
                "[single_again-repeated]"
            ),
            (
                "test_a_fresh_process_goes_on_from_a_checkpoint_bit_for_bit_whatever_its_own_settings"
                "[single_again-bfloat16]"
            ),
            (
                "test_a_gradient_that_is_not_finite_changes_no_weight_and_is_skipped_again_in_a_replay"
                "[single_again-skips-0]"
            ),
            "test_a_gradient_that_is_not_finite_changes_no_weight_and_is_skipped_again_in_a_replay[split_again-skips-2]",
            "test_a_gradient_that_is_not_finite_changes_no_weight_and_is_skipped_again_in_a_replay[split_again-skips-3]",
            "test_a_step_is_the_token_mean_of_the_global_batch_whatever_the_ranks_rows_and_partitioning[single-one-row]",
            "test_gathered_weights_stay_as_they_were_while_the_next_step_is_taken[single-bfloat16]",
            "test_gathered_weights_stay_as_they_were_while_the_next_step_is_taken[split-zero-3]",
            "test_bfloat16_follows_float32_as_far_as_it_can",
            "test_the_same_seed_and_batches_give_the_same_weights_bit_for_bit",
            "test_the_number_of_ranks_may_change_where_nothing_is_split_among_them",
            "test_a_saved_folder_is_one_that_transformers_loads[split_again-zero-3]",
            "test_a_rank_that_fails_ends_all_and_is_named",
        )
    },
    "tests/learner/training/test_engine_options.py::test_compiled_layers_train_like_plain_ones": "prove-suite",
    **{
        f"tests/learner/training/test_engine_options.py::{name}": "prove-suite"
        for name in (
            "test_a_gradient_too_large_for_the_scale_is_made_again_and_its_batch_trains",
            "test_a_batch_without_a_finite_gradient_is_skipped_and_leaves_the_scale_alone",
            "test_float16_goes_on_from_a_checkpoint_bit_for_bit",
        )
    },
    "tests/learner/training/test_engine_options.py::"
    "test_compiled_layers_go_on_from_a_checkpoint_bit_for_bit": "prove-suite",
    **{
        f"tests/learner/training/test_lora.py::{name}": "prove-suite"
        for name in (
            "test_twenty_steps_with_a_reference_do_not_depend_on_the_stage",
            "test_the_reference_is_the_model_without_its_adapter",
            "test_adapters_train_and_nothing_else",
            "test_the_merged_weights_do_what_the_adapter_does",
            "test_a_generator_merges_an_adapter_to_the_bits_that_the_learner_would_have_published",
            "test_a_step_behind_a_checkpoint_is_trained_again_bit_for_bit",
            "test_a_run_begins_with_an_adapter",
        )
    },
    "tests/learner/training/test_offload.py::"
    "test_whatever_is_offloaded_at_whatever_stage_the_step_is_the_plain_one": "prove-suite",
    "tests/learner/training/test_offload.py::"
    "test_the_fused_head_takes_the_plain_step_where_ranks_share_it": "prove-suite",
    "tests/learner/training/test_peak_memory.py::"
    "test_a_step_peaks_where_it_did_when_the_estimates_were_made": "prove-suite",
    "tests/learner/training/test_objectives.py::"
    "test_a_step_does_not_depend_on_micro_batches_ranks_and_partitioning": "prove-suite",
    "tests/learner/training/test_objectives.py::test_a_step_is_trained_again_bit_for_bit": "prove-suite",
    "tests/learner/training/test_objectives.py::test_what_each_objective_adds_is_measured": "prove-suite",
    "tests/protocol/test_holes.py::"
    "test_an_older_learner_does_nothing_where_redis_forgot_the_fence_of_the_newer": "prove-suite",
    "tests/protocol/test_holes.py::test_what_somebody_deletes_is_issued_again": "prove-suite",
    "tests/protocol/test_holes.py::test_with_full_memory_what_is_there_can_leave": "prove-suite",
    "tests/scorers/code/test_hanging.py::"
    "test_a_hang_costs_twice_the_limit_of_a_case_and_a_second": "prove-suite",
    "tests/scorers/code/test_hanging.py::"
    "test_a_package_that_hangs_costs_twice_the_limit_of_a_test_and_a_second": "prove-suite",
    "tests/scorers/math/test_forms.py::test_every_other_right_form_scores_1": "prove-suite",
    "tests/scorers/math/test_forms.py::test_every_other_near_miss_scores_0": "prove-suite",
    "tests/scorers/math/test_forms.py::test_nor_to_any_other_heavy_reference": "prove-suite",
    **{
        f"tests/scorers/pool/test_putting_off.py::"
        f"test_a_patient_scorer_breaks_off_and_says_nothing_of_the_answer[{shape}]": "prove-suite"
        for shape in ("asserts", "calls", "pytest")
    },
    "tests/scorers/pool/test_worker.py::"
    "test_a_worker_serves_its_queues_in_their_order_and_imports_what_they_need[all queues]": "prove-suite",
    "tests/tools/difficulty/test_command.py::test_stored_samples_are_scored_again_by_another_scorer": "prove-suite",
    **{
        f"tests/tools/score/test_command.py::test_the_exit_code_tells_of_lines_that_were_refused[{rows}]": "prove-suite"
        for rows in ("rows1-0", "rows2-0")
    },
    "tests/scorers/math/test_forms.py::test_math_verify_says_what_is_written_beside": "prove-suite",
    "tests/scorers/pool/test_lost_workers.py::"
    "test_a_worker_that_redis_ends_in_the_middle_of_a_job_is_started_again": "prove-suite",
    "tests/scorers/pool/test_supervisor.py::"
    "test_a_pool_grows_while_it_works_and_each_serves_its_queues": "prove-suite",
    "tests/scorers/pool/test_worker.py::test_every_worker_gives_the_same_result_at_every_repeat": "prove-suite",
    "tests/scorers/reward_server/test_troubles.py::"
    "test_every_request_gets_its_own_score_whatever_breaks_meanwhile": "prove-suite",
    "tests/tools/run_view/test_bottleneck_of_runs.py::"
    "test_top_names_the_right_bottleneck_in_each_of_four_made_situations": "prove-suite",
}

# Of each test with many cases in these places, `make test` runs one case in so many, and `make prove-suite` the others.
SAMPLED = {
    "tests/docs/test_scorers_page.py": 4,
    "tests/scorers/code/test_breaking.py": 4,
    "tests/scorers/code/test_names.py": 4,
    "tests/scorers/code/test_scorer.py": 3,
    "tests/scorers/code/test_stubs.py": 3,
    "tests/scorers/code/test_tally.py": 3,
    "tests/scorers/math/test_corpus.py": 4,
    "tests/scorers/math/test_forms.py": 8,
    "tests/scorers/math/test_golden.py": 4,
    "tests/scorers/math/test_scorer.py": 4,
    "tests/scorers/math/test_spellings.py": 8,
    "tests/scorers/gold/test_examiner.py": 4,
    "tests/scorers/gym/test_every_data_set.py": 50,
    "tests/scorers/pool/test_supervisor.py": 4,
    "tests/scorers/pool/test_worker.py": 2,
    "tests/scorers/sandbox/harness/": 3,
    "tests/scorers/sandbox/local/": 3,
    "tests/scorers/sandbox/remote/test_fusion.py": 3,
    "tests/scorers/sandbox/server/test_submit.py": 4,
    "tests/scorers/sandbox/test_lacks.py": 3,
    "tests/scorers/simulation/test_scorer.py": 3,
    "tests/scorers/swe/test_trial.py": 6,
    "tests/scorers/swe/test_tampering.py": 8,
    "tests/generators/engines/vllm/test_engine.py": 2,
    "tests/generators/weight_sync/test_relayed_at_random.py": 3,
    "tests/learner/collect/test_session.py": 2,
    "tests/learner/journal/test_payloads.py": 6,
    "tests/learner/launch/test_ranks.py": 6,
    "tests/learner/training/test_attention.py": 2,
    "tests/learner/training/test_logprobs.py": 2,
    "tests/protocol/test_holes.py": 3,
    "tests/protocol/test_machine.py": 2,
    "tests/config/test_entry_points.py": 3,
    "tests/docs/test_pages_commands.py": 4,
    "tests/learner/resume/test_config_changes.py": 4,
    "tests/learner/test_status.py": 3,
    "tests/learner/test_main.py": 2,
    "tests/tools/rescore/test_command.py": 4,
    "tests/scorers/sandbox/server/test_service.py": 4,
    "tests/broker/private_redis/": 2,
    "tests/scorers/verl_function/": 3,
    "tests/scorers/swe/test_similarity.py": 3,
    "tests/scorers/text/": 3,
    "tests/learner/groups/test_selection.py": 3,
    "tests/scorers/reward_server/test_server.py": 3,
    "tests/e2e/test_redis_restart.py": 2,
    "tests/tools/doctor/test_light.py": 6,
    "tests/tools/judge_check/test_command.py": 6,
    "tests/tools/score/test_command.py": 4,
    "tests/tools/test_commands.py": 4,
    "tests/tools/test_completion.py": 4,
    "tests/tools/top/test_command.py": 4,
    "tests/tools/up/": 4,
}


def tier_of_place(nodeid: str) -> str | None:
    """Return the tier that the table gives to a file or a test, `None` where fixtures decide."""
    place = _place_of(nodeid, PLACES)
    return None if place is None else PLACES[place]


def proof_of(nodeid: str, case: int, cases: int) -> str | None:
    """Return the make target that runs a test which `make test` leaves out, `None` for every other test.

    Args:
        nodeid: pytest's name of the test, its parameters in brackets.
        case: how many cases of the same test are collected before this one.
        cases: how many of the same test are collected.
    """
    test = nodeid.partition("[")[0]
    if target := PROOFS.get(nodeid) or PROOFS.get(test):
        return target
    if (place := _place_of(nodeid, SAMPLED)) is None:
        return None
    one_in = SAMPLED[place]
    # Not the first of each test: that would be the same one of two walls everywhere.
    first = crc32(test.encode()) % min(one_in, cases)
    return None if case % one_in == first else "prove-suite"


def _place_of(nodeid: str, places: Iterable[str]) -> str | None:
    """Return the longest of `places` in which a test lies, a folder, a file or the test itself; `None`: none of them."""
    name = nodeid.partition("[")[0]
    found = [
        place for place in places if name == place or name.startswith((place.rstrip("/") + "/", f"{place}::"))
    ]
    return max(found, key=len, default=None)


def scope_of(nodeid: str) -> str:
    """Name what one worker of pytest runs in turn: a file, a folder whose files share what they import, or all whole runs.

    Whole runs disturb each other.
    """
    if tier_of_place(nodeid) == "e2e":
        return "whole runs"
    if nodeid.partition("::")[0] in OF_THE_SOURCE:
        return "the source"
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def tier_of(nodeid: str, markers: Iterable[str], fixtures: Iterable[str]) -> str:
    """Return the one tier of a test.

    Raises:
        ValueError: two markers name two tiers.
    """
    marked = set(markers) & TIERS.keys()
    if len(marked) > 1:
        raise ValueError(f"{nodeid} has more than one tier: {sorted(marked)}")
    if marked:
        return marked.pop()
    return tier_of_place(nodeid) or ("redis" if REDIS_FIXTURES & set(fixtures) else "unit")
