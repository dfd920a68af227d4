#!/bin/sh
# SPDX-License-Identifier: MIT
# What the CPU device alone notices of a kernel's wrong use is said in one sentence: call, value, allowed range, block.
# usage: LAUNCH="oshrun -n" cpu_errors.sh PROGRAM
program=$1
. "$(dirname "$0")/../wrong_use.sh"

soon=SHMEM_TIMEOUT=0.3
wrong $soon poll_test shmemd_test 'block [01], thread 3' '0\.[3-9] s' SHMEM_TIMEOUT 'address 0x' 'seen 0' '\b2 of .* 2 blocks'
wrong $soon poll_two_words shmemd_signal_fetch 'block [01], thread 3' '0\.[3-9] s' SHMEM_TIMEOUT 'seen 0'
wrong $soon poll_lock shmemd_atomic_compare_swap 'block [01], thread 3' '0\.[3-9] s' SHMEM_TIMEOUT 'seen 0'
wrong $soon poll_pause shmemd_pause 'block [01], thread 3' '0\.[3-9] s' SHMEM_TIMEOUT
wrong $any poll_abort SHMEM_TIMEOUT_ABORT 'a kernel has polled'
# Two blocks on one lane race with each other: thread sanitizer must not report that in place of the library.
wrong TSAN_OPTIONS=report_bugs=0 lane_twice shmemd_barrier 'block 1' 'lane' 'there were 1' 'different lanes'

thread='block 1, thread 3'
wrong $any pe_put_block shmemd_putmem_block 'block 1, thread' '\bpe 2 ' '0\.\.1'
wrong $any pe_get shmemd_uint64_get "$thread" '\bpe -1 ' '0\.\.1'
wrong $any pe_p shmemd_uint64_p "$thread" '\bpe 1073741824 ' '0\.\.1'
wrong $any pe_g shmemd_uint64_g "$thread" '\bpe 2 ' '0\.\.1'
wrong $any pe_iput shmemd_iput64 "$thread" '\bpe -1 ' '0\.\.1'
wrong $any pe_put_signal shmemd_putmem_signal_nbi "$thread" '\bpe 7 ' '0\.\.1'
wrong $any pe_signal_op shmemd_signal_op "$thread" '\bpe 7 ' '0\.\.1'
wrong SHMEM_FORCE_PROXY=1 pe_packet shmemd_put_packet "$thread" '\bpe 7 ' '0\.\.1'
wrong SHMEM_FORCE_PROXY=1 pe_atomic_add shmemd_uint64_atomic_add "$thread" '\bpe 7 ' '0\.\.1'
wrong $any pe_atomic_swap shmemd_uint64_atomic_swap "$thread" '\bpe 7 ' '0\.\.1'
wrong $any pe_compare_swap shmemd_uint64_atomic_compare_swap "$thread" '\bpe 7 ' '0\.\.1'
wrong $any pe_ptr shmemd_ptr "$thread" '\bpe -1 ' '0\.\.1'
wrong $any pe_quiet shmemd_pe_quiet "$thread" 'target_pes 7 ' '0\.\.1'
wrong $any null_source shmemd_putmem_nbi "$thread" 'source is a null pointer'
wrong $any null_word shmemd_uint64_wait_until "$thread" 'ivar is a null pointer'
wrong $any null_reduced shmemd_uint64_sum_reduce_block 'block 1, thread' 'dest is a null pointer'
wrong $any odd_p shmemd_uint64_p "$thread" 'dest 0x' '\b8 bytes'
wrong $any odd_atomic shmemd_uint64_atomic_fetch_add "$thread" 'dest 0x' '\b8 bytes'
wrong $any odd_signal shmemd_putmem_signal "$thread" 'sig_addr 0x' '\b8 bytes'
wrong $any odd_area shmemd_get_packet "$thread" 'source 0x' '\b16 bytes'
wrong $any wrong_cmp shmemd_signal_wait_until "$thread" 'cmp is 7' 'SHMEM_CMP_GE \(6\)'
wrong $any wrong_cmp_of_set shmemd_uint64_wait_until_any "$thread" 'cmp is 0' 'SHMEM_CMP_GE \(6\)'
wrong $any wrong_signal_op shmemd_signal_op "$thread" 'sig_op is 3' 'SHMEM_SIGNAL_ADD \(2\)'
wrong $any wrong_number shmemd_uint64_put "$thread" 'number of bytes is -8' '2\^47'
wrong $any wrong_number_reduced shmemd_uint64_sum_reduce_block 'block 1, thread' 'number of bytes is -8' '2\^47'
wrong $any wrong_stride shmemd_uint64_iput "$thread" 'sst is 0' '1 or more'
wrong $any wrong_epoch shmemd_put_packet "$thread" 'epoch is 0' '1 or more'
wrong $any fault_beyond "a kernel: $thread" 'address 0x' 'no memory' 'beyond all objects'
wrong $any fault_load "a kernel: $thread" 'address 0x40\b' 'no memory'
wrong $any fault_no_address "a kernel: $thread" 'none that memory can have'
wrong $any fault_stack "a kernel: $thread" 'more than its [0-9]+ bytes of stack' SHMEMD_SHARED
wrong $any fault_copy 'a copy in a stream' 'address 0x' 'no memory'
wrong $any launch_short shmemx_launch 'args_bytes' '\b64\b' 'struct' '\b80\b'
wrong $any launch_long shmemx_launch 'args_bytes' '\b88\b' 'struct' '\b80\b'

wrong_end
