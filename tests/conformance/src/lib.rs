//! The behaviours that every backend has, as functions over any of them. [`conformance!`] makes tests of them.

#![allow(clippy::unwrap_used, missing_docs)]

pub mod admin;
pub mod alone;
pub mod bad_input;
pub mod blocks;
pub mod disturbances;
pub mod exec;
pub mod futures;
pub mod keys;
pub mod passing;
pub mod passing_ring;
pub mod programs;
pub mod queueing;
pub mod ranges;
pub mod recording;
pub mod scratch;
pub mod served;
pub mod skips;
pub mod subject;
pub mod users;
pub mod waiting;

/// A module of tests for one backend: its name, and what opens it over a [`scratch::Scratch`].
#[macro_export]
macro_rules! conformance {
    ($name:ident, $open:expr) => {
        mod $name {
            use super::*;

            $crate::cases! { $open;
                blocks: {
                    what_is_written_at_every_offset_and_size_reads_back,
                    what_several_buffers_send_several_others_receive,
                    memory_that_a_program_brought_is_as_good_as_any,
                    memory_that_a_program_prepares_is_cut_for_commands,
                    memory_that_cannot_be_prepared_comes_back,
                    zeroed_and_deallocated_blocks_read_as_zeroes_and_their_neighbours_stay,
                    a_flush_succeeds_after_writes_and_with_nothing_to_flush,
                    a_comparison_finds_equal_and_different,
                    what_is_compared_and_written_as_one_is_done_or_left,
                    queues_that_race_on_one_block_lose_no_increment,
                    a_copy_moves_blocks_within_the_namespace,
                    a_verify_reads_without_data,
                    a_raw_command_does_what_the_typed_one_does,
                }
                queueing: {
                    a_queue_as_deep_as_is_promised_is_had_and_works,
                    every_depth_takes_as_many_commands_as_it_says_and_refuses_one_more,
                    every_command_finishes_once_with_its_tag_and_its_buffer,
                    a_command_can_be_submitted_from_where_another_finishes_at_full_depth,
                    a_synchronous_call_leaves_the_completions_of_others,
                    a_call_alone_returns_its_memory_and_takes_no_other_completion,
                    commands_submitted_together_all_finish,
                    several_queues_on_several_threads_do_not_disturb_each_other,
                    a_queue_dropped_with_commands_outstanding_harms_no_other,
                }
                waiting: {
                    waiting_for_some_returns_when_they_are_there,
                    draining_ends_with_nothing_outstanding,
                    waiting_on_an_empty_queue_returns_at_once,
                    what_is_waited_for_one_by_one_is_handed_over,
                    a_wait_without_end_ends_with_what_it_waits_for,
                    an_event_loop_is_woken_for_every_completion,
                    a_command_with_time_enough_succeeds,
                    cancelling_what_is_not_there_is_refused_by_its_tag,
                }
                disturbances: {
                    a_file_truncated_under_reads_is_an_error_that_names_its_last_byte,
                    a_write_that_the_system_cuts_short_does_not_pass_for_a_whole_one,
                    a_queue_for_which_no_descriptor_is_left_is_refused_and_nothing_leaks,
                    a_child_that_begins_and_ends_disturbs_no_command,
                    commands_whose_time_is_over_finish_once_and_give_their_memory_back,
                    commands_that_are_taken_back_finish_once_and_give_their_memory_back,
                    more_buffers_than_one_system_call_takes_are_sent_and_received,
                }
                futures: {
                    many_futures_share_a_queue_that_is_not_as_deep,
                    a_future_that_fails_gives_the_buffer_back,
                    a_dropped_future_harms_no_other_and_frees_its_slot,
                    an_executor_that_sleeps_on_descriptors_is_woken,
                    the_task_that_polls_a_queue_is_woken_by_submissions,
                }
                bad_input: {
                    a_range_outside_the_namespace_is_refused_and_gives_the_buffer_back,
                    data_of_another_length_than_the_blocks_is_refused,
                    another_namespace_is_refused_by_its_number,
                    a_queue_of_no_depth_is_refused_by_the_limits,
                    options_that_cannot_be_honoured_are_refused,
                    key_value_commands_are_refused_by_a_namespace_of_blocks,
                    an_unknown_opcode_is_refused_or_answered_with_a_failure,
                }
            }
        }
    };
}

/// One test for each named behaviour.
#[macro_export]
macro_rules! cases {
    ($open:expr; $($file:ident: { $($case:ident,)* })*) => {
        $($(
            #[test]
            fn $case() {
                let scratch = $crate::scratch::Scratch::new();
                let backend = ($open)(&scratch);
                $crate::$file::$case(&$crate::subject::Subject::new(&scratch, &backend));
            }
        )*)*
    };
}
