# The files of the library, folder by folder from the lowest up, and then those of studio/, which only programs and tests have beside it.
# docs/develop/architecture.md says what each folder is for.
#
# A new file goes into the list of its folder; CMake stops at a file that is in no list. IF and ELSE say when a file is built
# (cmake/folder.cmake); most conditions come from cmake/packages.cmake. Tests and fuzzers are found by their names, X_test.c and
# X_fuzz.c: the lists have only those that cannot be built everywhere.

tutti_folder(library src/base
    collective.c crc32c.c crc32c_instructions.c dtype.c encoding.c encoding_wish.c group_depth.c kept_text.c log.c log_limit.c op.c option.c
    option_mistake.c printable.c rank_map.c sized.c status.c version.c)

tutti_folder(library src/os
    at_exit.c byte_stream.c close_on_exec.c cpu.c doorbell.c file.c fork.c futex.c hardware.c
    huge_pages.c last_word.c lent_variables.c local_name.c local_socket.c mapping.c process.c shm.c tcp_path.c tcp_socket.c thread.c turn.c
    userfault.c
    IF TUTTI_OPENSSL tls_openssl.c ELSE tls_absent.c)

tutti_folder(library src/plan
    budget.c build.c vector_clock.c fault.c fingerprint.c flow.c form.c placement.c plan.c rounding.c text.c value.c verify.c
    verify_order.c verify_placement.c verify_results.c verify_state.c wiring.c)

tutti_folder(library src/topo
    probe.c racks.c topo.c)

tutti_folder(library src/format
    cache_folder.c network_file.c plan_file.c proof_file.c trusted_file.c
    IF JANSSON_INCLUDE_DIR
        calibration_file.c calibration_json.c json_part.c json_position.c json_text.c table_file.c table_json.c
    ELSE
        json_files_absent.c
    IF "JANSSON_INCLUDE_DIR AND NOT bundled_jansson"
        jansson.c
    IF bundled_jansson
        jansson_bundled.c
    IF TUTTI_TOPOLOGY # they are linked with jansson
        calibration_file_test.c calibration_json_test.c calibration_json_fuzz.c network_file_test.c network_file_fuzz.c
        proof_file_test.c table_file_test.c table_json_test.c table_json_fuzz.c)

# The scalar twin is the reference that no optimiser may reorder. A SIMD file is compiled for its instruction set and called only where
# the processor has it. No file may fuse a multiply and an add: every kernel gives the scalar twin's bits.
string(REGEX MATCH "^(x86_64|AMD64|amd64)$" for_x86 "${CMAKE_SYSTEM_PROCESSOR}")
string(REGEX MATCH "^(aarch64|arm64)$" for_arm "${CMAKE_SYSTEM_PROCESSOR}")
tutti_folder(library src/kernel
    kernel.c kernel_pages.c kernel_scalar.c kernel_user.c
    IF for_x86 kernel_avx2.c kernel_avx512.c
    IF for_arm kernel_neon.c)
tutti_folder(library src/encoding
    codec_scalar.c encoding.c encoding_reduce.c
    IF for_x86 codec_avx2.c codec_avx512.c
    IF for_arm codec_neon.c)
set(vector_kernels src/kernel/kernel_avx2.c src/kernel/kernel_avx512.c src/encoding/codec_avx2.c src/encoding/codec_avx512.c)
set_source_files_properties(src/kernel/kernel_scalar.c src/encoding/codec_scalar.c PROPERTIES COMPILE_OPTIONS
    "-fno-tree-vectorize;-fno-tree-slp-vectorize;-ffp-contract=off")
set_source_files_properties(src/kernel/kernel_avx2.c src/encoding/codec_avx2.c PROPERTIES COMPILE_OPTIONS
    "-mavx2;-mf16c;-ffp-contract=off")
set_source_files_properties(src/kernel/kernel_avx512.c src/encoding/codec_avx512.c PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=512;-ffp-contract=off")
set_source_files_properties(src/kernel/kernel_neon.c src/encoding/codec_neon.c PROPERTIES COMPILE_OPTIONS
    "-ffp-contract=off")
# Kernels of vectors take minutes to compile with sanitizers.
if(TUTTI_SANITIZE MATCHES "thread") # ranks use the scalar kernel then (cmake/tests.cmake)
    set_property(SOURCE ${vector_kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=thread)
elseif(TUTTI_SANITIZE) # what vectors compute is defined for all values; what they read and write is watched
    set_property(SOURCE ${vector_kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
endif()
if(TUTTI_FUZZ) # kernels parse nothing, and clang takes minutes to instrument them
    file(GLOB kernels CONFIGURE_DEPENDS src/kernel/*.c src/encoding/*.c)
    set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()

tutti_folder(library src/memory
    given.c heap.c kind.c ranges.c registrations.c unmapped.c)

tutti_folder(library src/bootstrap
    exchange.c folder.c host_id.c interface.c key.c launcher.c pmi1.c rendezvous.c secret.c
    IF TUTTI_OPENSSL mac_openssl.c ELSE mac_absent.c
    IF PMIX_INCLUDE_DIR pmix_service.c ELSE pmix_service_absent.c)
set_source_files_properties(src/bootstrap/pmix_service.c PROPERTIES COMPILE_OPTIONS "-isystem${PMIX_INCLUDE_DIR}")

tutti_folder(library src/connect
    admission.c admission_message.c bars.c connector.c discovery.c discovery_message.c handshake.c hello.c listener.c port.c)

tutti_folder(library src/path
    path.c)

tutti_folder(library src/domain
    domain.c)

tutti_folder(library src/transport
    data_order.c doubt.c open.c transport.c)
tutti_folder(studio src/transport
    paths.c) # the tables of paths by the names of their transports, for those who have none open

tutti_folder(library src/transport/local
    arrival.c bells.c checked.c checked_link.c links.c local.c nearness.c paths.c receiving.c peer_memory.c segment.c
    sending.c shared_slots.c sharing.c slot_owner.c)

tutti_folder(library src/transport/tcp
    control_queue.c endpoint.c frame.c gone.c link.c pair.c paths.c rails.c stream.c tcp.c window.c)

tutti_folder(library src/transport/router
    router.c)

tutti_folder(library src/transport/card
    card.c card_rails.c flight.c link.c pair.c paths.c)

tutti_folder(library src/transport/ofi
    card_distance.c choice.c rxm.c shortage.c
    IF OFI_INCLUDE_DIR
        calls.c ofi_device.c device_completions.c device_operations.c device_peers.c device_receives.c library.c offers.c
        ofi.c provider.c regions.c
    ELSE
        library_absent.c ofi_absent.c)
if(OFI_INCLUDE_DIR AND NOT OFI_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
    file(GLOB ofi_users CONFIGURE_DEPENDS src/transport/ofi/*.c) # and tests
    set_source_files_properties(${ofi_users} PROPERTIES COMPILE_OPTIONS "-isystem${OFI_INCLUDE_DIR}")
endif()

tutti_folder(library src/membership
    agreement.c exclude_policy.c growth.c heartbeat.c muster.c seat_map.c silence.c standing.c step_leader.c vote.c worker_clock.c)

tutti_folder(library src/algo
    algo_fingerprint.c bine.c broadcast_schedule.c bruck.c chain.c circulant.c circulant_broadcast.c compose.c
    composed.c double_tree.c doubling.c embed.c generate.c halving.c hierarchical.c hierarchical_blocks.c
    hierarchical_design.c hierarchical_exchange.c hierarchical_leaders.c leaders.c levels.c list.c loaded.c mesh.c pairwise.c
    ring.c swing.c torus.c tree.c)

tutti_folder(library src/model
    between.c calibration.c events.c servers.c simulate.c simulation.c turns.c work.c)

tutti_folder(library src/tune
    choose.c encoding_cost.c estimate.c predict.c ranking.c rules.c table.c)

tutti_folder(library src/engine
    bind.c bind_paths.c computing.c cut_unit.c deliver.c footprint.c program_links.c reduce.c run.c send.c start.c outgoing.c take.c)

tutti_folder(library src/p2p
    envelope.c match.c p2p.c payload.c)

tutti_folder(library src/gpu
    cuda.c cuda_copy.c cuda_fault.c cuda_find.c cuda_library.c cuda_memory.c cuda_open.c cuda_shares.c cuda_state.c
    cuda_streams.c device_fault.c executor.c gpu.c kernels.c orders.c shares.c)
# Kernels of devices are a text in the library (gpu/kernels.h).
tutti_embed(src/gpu/kernels.c kernels.ptx)

tutti_folder(library src/process
    excluded.c metrics.c monitor.c progress.c watch.c)

tutti_folder(library src/team
    host_levels.c hosts.c options.c rank_table.c)

tutti_folder(library src/health
    absence.c agree.c board.c choices.c control_ring.c deaths.c exclusion.c exclusion_tell.c failure.c hear.c heartbeats.c json_write.c known.c health_init.c
    lock.c network.c network_join.c network_leave.c processes.c quiesce.c recorder.c recover.c remote_rank.c
    straggler.c trace.c trace_choices.c withdrawn.c)

tutti_folder(library src/call
    all_memory.c begin.c call.c cancel.c chosen.c complete.c crossing.c diagnose.c encoded.c faulted.c gated.c group.c
    handle.c calls_init.c message.c message_call.c message_watch.c on_device.c orphans.c own_call.c program.c progress.c
    refuse.c repeat.c report.c request.c staged.c start.c wait_loop.c)

tutti_folder(library src/comm
    counters.c create.c derive.c derived_list.c enlarge.c exclude.c explain.c explain_encoding.c footprint.c grow.c id.c join.c knowledge.c comm.c
    measured.c mesh.c missing.c newcomer.c own_plan.c plans.c shrink.c signs.c site.c stored_folder.c stored_plan.c stored_turn.c tournament.c)

tutti_folder(library src/server
    block.c closings.c division.c finite.c line.c serve.c serve_answer.c serve_change.c serve_fill.c serve_join.c serve_request.c serve_step.c
    serve_tell.c server.c server_admit.c server_lines.c server_message.c server_options.c snapshot.c
    table.c table_blocks.c table_copy.c table_dense.c table_index.c table_initial.c table_load.c table_memory.c
    table_optimizer.c table_record_spec.c table_rows.c table_state.c table_words.c update.c worker.c worker_leg.c worker_parts.c worker_seats.c)

tutti_folder(library src/api
    api.c argument.c blocks.c check.c encode.c message.c)

tutti_folder(library train
    adapt.c adapt_policies.c agree.c buckets.c checkpoint.c checkpoint_agree.c checkpoint_box.c checkpoint_find.c checkpoint_folder.c
    checkpoint_head.c checkpoint_load.c checkpoint_manifest.c checkpoint_out.c checkpoint_part.c checkpoint_rest.c
    checkpoint_shard.c checkpoint_share.c checkpoint_table.c checkpoint_write.c compress.c compress_encoded.c
    compress_low_rank.c compress_none.c compress_save.c compress_state.c compress_take.c compress_top_k.c local.c
    local_save.c local_step.c local_take.c local_update.c elastic.c
    elastic_count.c elastic_data.c elastic_model.c elastic_move.c elastic_save.c elastic_shard.c elastic_shards.c elastic_sick.c elastic_store.c elastic_sync.c elastic_table.c
    elastic_team.c low_rank.c names.c noise.c norm.c outside_group.c pipeline.c
    pipeline_room.c
    schedule.c schedule_draw.c schedule_run.c schedule_text.c schedule_times.c shards.c shards_pass.c shards_pool.c
    shards_state.c shards_step.c shards_update.c shards_views.c sparse_agree.c sparse_allreduce.c sparse_arguments.c
    sparse_call.c sparse_choose.c sparse_dense.c sparse_gather.c sparse_index.c sparse_merge.c sparse_own.c
    sparse_owner.c sparse_owners.c sparse_pull.c sparse_ranges.c sparse_result.c sparse_sort.c sparse_sum.c text_out.c
    top_k.c widen.c)
# An element's bits must depend neither on the range that it is computed in nor on the machine.
set_source_files_properties(train/adapt.c train/adapt_policies.c train/local_update.c train/low_rank.c train/noise.c train/shards_update.c src/server/table_optimizer.c PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")

tutti_folder(studio studio
    load.c xml_text.c)
tutti_folder(bundled studio
    IF TUTTI_BUNDLED xml_random.c) # beside libexpat.a, which comes after the other files of studio/

tutti_folder(studio studio/foreign
    msccl_algo.c msccl_depth.c msccl_export.c msccl_import.c msccl_import_buffers.c msccl_import_lanes.c
    msccl_import_prove.c msccl_import_refuse.c msccl_import_run.c msccl_import_wire.c msccl_import_write.c
    msccl_report.c mscclpp_export.c mscclpp_program.c
    IF TUTTI_EXPAT msccl_xml.c msccl_xml_test.c msccl_xml_fuzz.c ELSE msccl_xml_absent.c
    IF TUTTI_TOPOLOGY nccl_tuner.c nccl_tuner_test.c
    IF "TUTTI_TOPOLOGY AND TUTTI_EXPAT" nccl_xml.c nccl_xml_test.c nccl_xml_fuzz.c
    IF "TUTTI_TOPOLOGY AND NOT TUTTI_EXPAT" nccl_xml_absent.c)

tutti_folder(studio studio/page
    page.c)

tutti_folder(studio studio/plan
    contents.c draw.c draw_arrows.c draw_boxes.c draw_ink.c draw_measures.c player.c player_page.c rounds.c)
tutti_embed(studio/plan/player_page.c player.html player.css player.js)

tutti_folder(studio studio/synth
    bound.c direct.c exact.c forest.c from_topo.c graph.c greedy.c grow.c lay.c lay_rank.c max_flow.c residual.c
    split.c standing.c steps.c steps_check.c steps_plan.c time_cut.c timetable.c z3.c
    IF TUTTI_TOPOLOGY from_topo_test.c from_topo_fuzz.c) # they read topologies

tutti_folder(studio studio/topo
    draw.c levels.c path.c
    IF TUTTI_TOPOLOGY discover.c discover_test.c topo_json.c topo_json_test.c topo_json_fuzz.c)

tutti_folder(studio studio/trace
    IF TUTTI_TOPOLOGY trace_json.c trace_json_test.c trace_json_fuzz.c)

tutti_check_folders(src train studio)
