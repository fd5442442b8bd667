"""
Kinds of faults that users met in programs like this one, and the tests that guard against each.

A kind is told by its symptom. Whoever renames or removes a guard is told here, and a new
test of the `test_journey_field_*` modules must say which kind it guards against.
"""

from __future__ import annotations

import ast

import pytest

from tests.harness.home import SOURCE

GUARDS = {
    # Turns and the wire
    "a cancel right behind its prompt hangs the prompt": """
        test_journey_field_turns::test_a_cancel_behind_its_prompt_settles_before_the_service_answers
        test_journey_cancel::test_a_cancel_right_behind_its_prompt_is_not_lost
        test_journey_cancel::test_prompts_and_cancels_in_one_write_keep_their_order
    """,
    "a load of a session whose turn runs makes its cancel a no-op": """
        test_journey_field_turns::test_a_turn_that_was_loaded_while_it_runs_is_still_cancelled
        test_journey_resume_running::test_a_running_turn_can_be_resumed_and_still_be_cancelled
        test_journey_version_1::test_a_load_while_the_turn_runs_leaves_it_cancellable
    """,
    "a cancel is answered with an error and the turn runs on": """
        test_wire_envelope::test_notifications_never_get_an_answer
        test_wire_envelope::test_a_cancel_with_an_id_cancels_and_answers_an_empty_object
        test_journey_cancel::test_a_cancel_of_what_does_not_run_does_nothing
        test_wire_sequences::test_each_request_of_any_sequence_is_answered_once
    """,
    "a stream that goes quiet leaves the prompt unanswered": """
        test_journey_field_turns::test_a_cancel_during_silence_after_two_deltas_settles_at_once
        test_journey_models::test_a_model_that_falls_silent_ends_the_turn
        test_journey_models::test_a_silent_model_is_cancelled_at_once
    """,
    "the last, blocked and denied tool calls stay in progress": """
        test_journey_field_turns::test_every_call_ends_before_its_turn_does
        test_journey_models::test_call_ids_are_unique_although_the_model_repeats_its_own
        test_journey_version_1_faults::test_a_turn_that_a_kill_left_open_is_closed_by_a_load
    """,
    "a cancel while a permission is open hangs": """
        test_journey_cancel::test_a_cancel_takes_an_open_permission_back
        test_journey_version_1_faults::test_a_question_that_is_never_answered_is_taken_back
        test_journey_field_turns::test_every_call_ends_before_its_turn_does
    """,
    "agents and their children outlive the editor": """
        test_journey_field_turns::test_a_killed_editor_leaves_no_server_and_no_command
        test_journey_shutdown::test_a_shell_and_its_children_are_killed
        test_journey_shutdown::test_an_open_permission_is_denied
        test_journey_shutdown::test_a_broken_stdout_ends_a_running_shell
        test_journey_shutdown::test_a_session_that_a_signal_interrupted_can_be_resumed
    """,
    "log text on stdout": """
        test_journey_field_turns::test_what_a_library_prints_stays_off_stdout
        test_journey_command_line::test_stdout_is_the_protocol_s_alone
    """,
    "a protocolVersion of another type gives a validator's dump": """
        test_journey_initialize::test_a_version_that_is_no_integer_is_named_and_survived
        test_journey_initialize::test_version_2_is_answered_and_offered
        test_wire_methods::test_nothing_but_initialize_is_answered_before_initialize
        test_wire_sequences::test_before_initialize_nothing_else_is_answered
    """,
    "ids of some types are refused or changed": """
        test_wire_ids::test_an_id_comes_back_as_it_was_sent
        test_wire_ids::test_an_id_of_another_type_is_an_invalid_request_with_a_null_id
        test_wire_ids::test_an_id_may_be_used_again
        test_wire_framing::test_what_is_not_json_is_a_parse_error_with_a_null_id
        test_wire_framing::test_blank_lines_and_carriage_returns_are_tolerated
        test_wire_batches::test_an_empty_batch_is_one_invalid_request
        test_wire_sequences::test_each_request_of_any_sequence_is_answered_once
    """,
    "a long line kills the reader": """
        test_wire_framing::test_a_prompt_of_12_mib_is_read
        test_wire_framing::test_a_line_over_the_limit_is_refused_and_not_held_in_memory
    """,
    "separators of Unicode are taken as line ends": """
        test_journey_field_turns::test_separators_are_the_same_live_and_replayed
        test_wire_framing::test_unicode_line_separators_inside_strings_end_no_line
        test_journey_models::test_text_is_the_same_live_and_replayed
    """,
    "a second prompt races the first": """
        test_journey_prompt::test_a_second_prompt_is_refused_while_one_is_prepared_or_run
        test_journey_prompt::test_sessions_run_side_by_side
        test_journey_version_1::test_busy_is_not_authentication
    """,
    # Sessions
    "a resume replays, a load replays only the end": """
        test_journey_field_turns::test_a_long_session_is_loaded_whole_and_in_order
        test_journey_version_1::test_a_load_replays_and_a_resume_does_not
        test_journey_resume::test_without_a_replay_no_update_is_sent
    """,
    "a missing session is a success or an internal error": """
        test_journey_field_turns::test_a_session_that_is_not_there_is_neither_found_nor_made
        test_wire_methods::test_an_unknown_session_is_not_found
        test_journey_version_1_faults::test_a_session_that_is_not_there_is_not_found
    """,
    "a torn last record loses the session": """
        test_journey_store::test_a_torn_log_keeps_its_turns_and_takes_new_ones
        test_journey_store::test_a_full_disk_loses_nothing_that_was_shown
        test_journey_kill_sweep::test_a_kill_between_two_lines_of_a_turn_loses_nothing
    """,
    # The model
    "a lone surrogate makes every later request fail": """
        test_journey_field_turns::test_no_lone_surrogate_gets_into_a_request
        test_wire_surrogates::test_a_lone_surrogate_in_a_prompt_becomes_the_replacement_character
        test_wire_surrogates::test_a_file_name_that_is_not_utf8_reaches_the_client_as_text
    """,
    "interrupted parallel calls leave ids without a result": """
        test_journey_field_turns::test_interrupted_calls_and_blank_answers_leave_an_acceptable_history
        test_journey_models::test_a_long_session_survives_a_kill_in_the_middle
    """,
    "half-read arguments are repaired and run": """
        test_journey_field_turns::test_a_cut_message_of_any_service_runs_nothing
        test_journey_models::test_a_cut_tool_call_is_not_run
        test_journey_models::test_a_stream_that_breaks_off_is_not_repeated_once_shown
    """,
    "blank text of the assistant is stored": """
        test_journey_field_turns::test_interrupted_calls_and_blank_answers_leave_an_acceptable_history
        test_journey_models::test_an_empty_answer_does_no_harm
        test_provider_streams::test_nothing_blank_and_nothing_malformed_is_sent_back
    """,
    "reasoning is not sent back": """
        test_journey_field_turns::test_interrupted_calls_and_blank_answers_leave_an_acceptable_history
        test_provider_streams::test_reasoning_comes_back_unchanged
        test_chat_completions::test_a_server_that_wants_reasoning_gets_it_for_every_call
    """,
    "a rate limit is told only on stderr": """
        test_journey_field_turns::test_the_error_of_a_prompt_names_the_cause_and_no_key
        test_journey_models::test_a_busy_service_is_asked_again
        test_journey_models::test_each_kind_gives_up_on_a_service_that_refuses
        test_journey_models::test_a_cancel_ends_the_pause_before_a_retry
        test_journey_models::test_a_refusal_ends_the_turn_with_words_for_the_user
        test_journey_models::test_a_service_that_is_not_there_is_named
        test_chat_completions::test_an_error_in_the_middle_of_a_stream
        test_messages::test_an_error_in_the_middle_of_a_stream
        test_responses::test_an_error_in_the_middle_of_a_stream
    """,
    # Files
    "a search in line feeds misses a file of others": """
        test_journey_field_files::test_an_edit_in_line_feeds_touches_only_its_bytes_in_a_file_of_others
        test_replacing::test_only_what_differs_is_touched
        test_apply_patch::test_the_bytes_of_the_file_stay
    """,
    "an edit turns other bytes into replacement characters": """
        test_journey_field_files::test_an_edit_of_ascii_keeps_the_other_bytes_or_is_refused
        test_text_files::test_whatever_is_decoded_encodes_to_the_same_bytes
    """,
    "a byte order mark breaks the first line": """
        test_journey_field_files::test_a_byte_order_mark_is_no_part_of_the_first_line_and_stays
        test_search_replace::test_a_second_marker_is_one_too_many
    """,
    "an edit replaces a link or drops the mode": """
        test_journey_field_files::test_an_edit_through_a_link_keeps_the_link_the_mode_and_every_name
        test_search_replace::test_the_link_stays_and_its_target_is_edited
        test_search_replace::test_a_link_out_of_the_workspace_is_judged_by_its_target
        test_apply_patch::test_a_link_is_not_deleted_in_place_of_what_it_leads_to
    """,
    # Commands and the sandbox
    "a child in the background holds the call": """
        test_journey_shell::test_a_child_that_keeps_the_pipe_does_not_keep_the_call
        test_process::test_background_child_does_not_hold_the_call
    """,
    "a time-out or a cancel kills only the shell": """
        test_journey_shell::test_a_time_out_says_what_was_killed
        test_journey_cancel::test_a_cancel_kills_the_whole_tree_of_a_shell
        test_journey_shutdown::test_a_shell_and_its_children_are_killed
    """,
    "all output is held before it is cut": """
        test_journey_field_commands::test_output_of_any_amount_and_shape_is_shown_in_bounded_memory
        test_journey_shell::test_much_output_keeps_its_ends
        test_journey_backpressure::test_a_command_that_prints_a_lot_is_told_in_bounded_memory
    """,
    "a `.git` that is a file keeps the sandbox from starting": """
        test_journey_field_commands::test_commands_start_and_git_works_whatever_dot_git_is
        test_git_repositories::test_git_works
        test_git_repositories::test_hooks_and_config_stay_as_they_are
        test_git_repositories::test_git_link_inside_the_workspace
    """,
    "the folder for temporary files is not there": """
        test_journey_field_commands::test_temporary_files_work_whatever_the_host_calls_its_folder
        test_process::test_tmp_is_private_and_lasts_for_the_session
        test_seatbelt::test_home_and_tmp_are_the_private_folders
    """,
    "without bubblewrap each command fails in riddles": """
        test_without_a_sandbox::test_without_bwrap_both_tools_say_what_to_install
        test_without_a_sandbox::test_refusal_of_the_kernel_is_told_by_both_tools
        test_probe::test_nothing_runs_without_bwrap
    """,
}


@pytest.fixture(name="existing", scope="module")
def _existing():
    """Every test, as module::name."""
    return {
        f"{path.stem}::{node.name}"
        for path in (SOURCE / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_kind_of_fault_has_its_guards(existing):
    """Each that is named exists, and at least one drives the real program."""
    for kind, guards in GUARDS.items():
        named = set(guards.split())
        assert named <= existing, (kind, named - existing)
        assert any(
            name.startswith(("test_journey_", "test_wire_", "test_without_")) for name in named
        ), kind


def test_every_journey_of_a_field_report_guards_against_a_kind(existing):
    """None of them stands for nothing."""
    named = {guard for guards in GUARDS.values() for guard in guards.split()}
    assert {one for one in existing if one.startswith("test_journey_field_")} <= named
