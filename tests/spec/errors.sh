#!/bin/sh
# SPDX-License-Identifier: MIT
# Each wrong call ends its job at once, nonzero, with one sentence: PE, call, argument, value, allowed range.
# usage: LAUNCH="oshrun -n" errors.sh PROGRAM
program=$1
. "$(dirname "$0")/../wrong_use.sh"
most_seconds=5
prefix='^\[pe 1\]'

wrong $any pe_put shmem_int_put '\b9\b' '0\.\.1'
wrong $any pe_negative shmem_long_p ' -1\b' '0\.\.1'
wrong $any pe_get shmem_getmem '\b4711\b' '0\.\.1'
wrong $any pe_g shmem_double_g '\b2\b' '0\.\.1'
wrong $any pe_iput shmem_int_iput '\b9\b' '0\.\.1'
wrong $any pe_put_nbi shmem_put64_nbi '\b9\b' '0\.\.1'
wrong $any pe_amo shmem_int_atomic_inc '\b9\b' '0\.\.1'
wrong $any pe_fetch shmem_long_atomic_fetch ' -7\b' '0\.\.1'
wrong $any pe_signal shmem_putmem_signal '\b9\b' '0\.\.1'
wrong $any address_stack shmem_int_put dest 0x 'symmetric'
wrong $any address_malloc shmem_getmem source 0x 'symmetric'
wrong $any address_null shmem_putmem dest 'null|NULL|0x0|nil'
wrong $any address_const shmem_int_get source 0x 'no global variable of the program or a const one'
wrong $any address_amo shmem_int_atomic_add dest 0x 'symmetric'
wrong $any address_signal shmem_putmem_signal sig_addr 0x 'symmetric'
wrong $any address_lock shmem_set_lock lock 0x 'symmetric'
wrong $any past_heap shmem_putmem dest 0x
wrong $any past_strided shmem_int_iput dest 0x
wrong $any overflow_put shmem_long_put dest nelems
wrong $any overflow_get shmem_get128 source nelems
wrong $any overflow_iput shmem_long_iput dest
wrong $any overflow_ibget shmem_long_ibget source
wrong SHMEM_DEBUG=1 past_object shmem_putmem dest 0x '\b200\b'
wrong SHMEM_DEBUG=1 past_object_get shmem_getmem source 0x '\b2000\b'
wrong SHMEM_DEBUG=1 before_object shmem_putmem dest 0x
wrong $any misaligned_int shmem_int_atomic_inc dest 0x 'align|multiple' '\b4\b'
wrong $any misaligned_long shmem_long_atomic_fetch_add dest 0x 'align|multiple' '\b8\b'
wrong $any misaligned_signal shmem_signal_set sig_addr 0x 'align|multiple' '\b8\b'
wrong $any ctx_invalid shmem_ctx_int_p ctx
wrong $any ctx_destroyed shmem_ctx_putmem ctx
wrong $any ctx_garbage shmem_ctx_quiet ctx
wrong $any compare_unknown shmem_int_wait_until cmp '\b99\b'
wrong $any signal_unknown shmem_putmem_signal sig_op '\b99\b'
wrong $any stride_zero shmem_int_iput dst '\b0\b'
wrong $any stride_block shmem_int_ibput dst '\b2\b' '\b3\b'
wrong $any null_ctx shmem_ctx_create 'ctx is a null pointer'
wrong $any null_team_ctx shmem_team_create_ctx 'ctx is a null pointer'
wrong $any null_no_team_ctx shmem_team_create_ctx 'ctx is a null pointer'
wrong $any null_ctx_team shmem_ctx_get_team 'team is a null pointer'
wrong $any null_config shmem_team_get_config 'config is a null pointer'
wrong $any null_thread shmem_query_thread 'provided is a null pointer'
wrong $any null_minor shmem_info_get_version 'minor is a null pointer'
wrong $any null_fetch shmem_long_atomic_fetch_add_nbi 'fetch is null'
wrong $any null_indices shmem_long_test_some 'indices is null'
wrong $any null_pes shmem_pe_quiet 'target_pes is null'
wrong $any wrap_lock shmem_set_lock lock 0xf 'symmetric'
wrong $any wrap_put shmem_putmem dest 0x
wrong $any wrap_wait shmem_long_wait_until_all ivars nelems

# Everybody makes these, so any PE may be the one that says so.
prefix='^\[pe [01]\]'
wrong $any pe_team_ctx shmem_ctx_int_p '\b5\b' '0\.\.1'
wrong $any address_reduce shmem_int_sum_reduce dest 0x 'symmetric'
wrong SHMEM_DEBUG=1 freed_object shmem_putmem dest 0x
wrong $any team_destroyed shmem_team_sync team
wrong $any team_garbage shmem_int_sum_reduce team
wrong $any root_range shmem_int_broadcast PE_root '\b9\b' '0\.\.1'
wrong $any root_negative shmem_broadcastmem PE_root ' -1\b' '0\.\.1'
wrong $any overflow_fcollect shmem_long_fcollect 'dest|source'
wrong $any overflow_reduce shmem_long_sum_reduce 'dest|source'
wrong $any set_size shmem_barrier PE_size '\b9\b' '1\.\.2'
wrong $any set_start shmem_barrier ' -1\b' '0\.\.1'
wrong $any set_stride shmem_fcollect32 '\b(7|128)\b' '0\.\.1'
wrong $any sync_null shmem_barrier pSync
wrong $any free_stack shmem_free ptr 0x
wrong $any free_twice shmem_free ptr 0x
wrong $any free_inside shmem_free ptr 0x
wrong $any null_split shmem_team_split_strided 'new_team is a null pointer'
wrong $any null_split_x shmem_team_split_2d 'xaxis_team is a null pointer'
wrong $any null_split_y shmem_team_split_2d 'yaxis_team is a null pointer'
wrong $any wrap_buffer shmemx_buffer_register addr 0x 'len_bytes 18446744073709551615, which ends beyond the address space'
wrong $any wrap_buffer_least shmemx_buffer_register addr 0x 'ends beyond the address space; at most [0-9]+ bytes fit'
wrong $any wrap_alltoalls shmem_long_alltoalls dest nelems
wrong SHMEM_DEBUG=1 mismatch_size 'shmem_int_sum_reduce' '\b(4|16 bytes)\b' '\b(5|20 bytes)\b' 'pe 0' 'pe 1'
wrong SHMEM_DEBUG=1 mismatch_root 'shmem_int_broadcast' '\b0\b' '\b1\b'
wrong SHMEM_DEBUG=1 mismatch_call 'shmem_int_(fcollect|alltoall)' '(fcollect.*alltoall|alltoall.*fcollect)' '16 bytes.*16 bytes'
wrong SHMEM_DEBUG=1 mismatch_operator 'shmem_int_(max|min)_reduce' '(max.*min|min.*max)'
wrong SHMEM_DEBUG=1 mismatch_team shmem_team_split_strided 'size is [12] on pe [01] and [12] on pe [01]'
wrong SHMEM_DEBUG=1 mismatch_dest shmem_int_fcollect 'dest is not the same symmetric object'
wrong SHMEM_DEBUG=1 mismatch_agreement 'shmem(_barrier_all|x_device_init)' 'calls shmemx_device_init' 'calls shmem_barrier_all'
wrong SHMEM_DEBUG=1 overlap_fcollect shmem_int_fcollect 'dest 0x' 'source 0x' 'overlap'
wrong SHMEM_DEBUG=1 mismatch_finalize 'shmem_(finalize|barrier_all)' 'shmem_finalize' 'shmem_barrier_all'

# No PE number yet, or no more.
prefix='^\[(pe [01]|isomer pid [0-9]+)\]'
wrong $any before_init_barrier shmem_barrier_all 'init'
wrong $any before_init_malloc shmem_malloc 'init'
wrong $any before_init_my_pe shmem_my_pe 'init'
wrong $any before_init_finalize shmem_finalize 'init'
wrong $any before_init_put shmem_int_p 'init'
wrong $any null_initialized shmem_query_initialized 'initialized is a null pointer'
wrong $any null_major shmem_info_get_version 'major is a null pointer'
wrong $any null_name shmem_info_get_name 'name is a null pointer'
wrong $any after_finalize_barrier shmem_barrier_all 'finalize'
wrong $any after_finalize_put shmem_int_p 'finalize'
wrong $any after_finalize_free shmem_free 'finalize'

wrong_end
