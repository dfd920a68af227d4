#!/bin/sh
# SPDX-License-Identifier: MIT
# Each wrong use of a device is refused, or ends its job, with one sentence: call, argument, value, allowed range.
# usage: LAUNCH="oshrun -n" device_errors.sh PROGRAM
program=$1
. "$(dirname "$0")/../wrong_use.sh"

wrong $any init_early shmemx_device_init 'init'
wrong $any malloc_early shmemx_malloc 'init'
wrong $any slot_negative shmemx_device_handle 'slot' '-1' '0\.\.255'
wrong $any slot_large shmemx_device_handle 'slot' '\b256\b' '0\.\.255'
wrong $any handle_null shmemx_device_handle 'handle' 'null'
wrong $any handle_no_team shmemx_device_handle 'team'
wrong $any handle_early shmemx_device_handle 'shmemx_device_init'
wrong $any handle_captured shmemx_device_handle 'captur'
wrong $any reset_unknown shmemx_device_reset 'slot|handle' '\b77\b'
wrong $any reset_slot shmemx_device_reset 'slot' '\b1000\b' '0\.\.255'
wrong $any malloc_kind shmemx_malloc 'kind' '\b7\b'
wrong SHMEM_DEVICE_HEAP_SIZE=64m malloc_huge shmemx_malloc 'room|heap' 'bytes'
wrong $any calloc_overflow shmemx_calloc 'count|size|bytes|room'
wrong $any align_odd shmemx_align 'alignment' '\b48\b' 'power of two'
wrong $any realloc_device shmem_realloc 'ptr' '0x' 'device'
wrong $any free_inside shmemx_free 'ptr' '0x' 'inside the object'
wrong $any free_twice shmemx_free 'ptr' '0x' 'device heap'
wrong $any host_broadcast shmem_broadcastmem 'dest' '0x' 'device' 'shmem_device\.h|_on_stream'
wrong $any host_fcollect shmem_fcollectmem 'source' '0x' 'device' 'shmem_device\.h|_on_stream'
wrong $any host_reduce shmem_uint64_sum_reduce 'dest|source' '0x' 'device' 'shmem_device\.h|_on_stream'
wrong $any host_lock shmem_set_lock 'lock' '0x' 'device'
wrong $any host_put_far shmem_putmem 'dest' '0x' 'symmetric'
wrong SHMEM_DEVICE_BLOCKS=2 kernel_blocks shmemd_barrier 'SHMEM_DEVICE_BLOCKS' '\b2\b'
wrong $any kernel_lane shmemd_barrier 'lane' 'SHMEM_DEVICE_BLOCKS' '\b64\b' '\b77\b'
wrong $any kernel_root shmemd_broadcast 'root' '\b9\b' '\b2\b'
wrong $any launch_threads shmemx_launch '\b2048\b' '1\.\.1024|1024'
wrong $any launch_blocks shmemx_launch 'blocks is 0' 'at least 1'
wrong $any launch_null shmemx_launch 'kernel' 'null'
wrong $any launch_early shmemx_launch 'shmemx_device_init'
wrong $any max_blocks_early shmemx_max_blocks 'shmemx_device_init'
wrong $any graph_end shmemx_graph_end 'shmemx_graph_begin'
wrong $any stream_pe shmemx_putmem_on_stream '\b9\b' '0\.\.1'
wrong $any stream_address shmemx_putmem_on_stream 'dest' '0x' 'symmetric'
wrong $any stream_op shmemx_signal_op_on_stream 'sig_op' '\b99\b' 'SHMEM_SIGNAL_SET'
wrong $any stream_odd shmemx_signal_op_on_stream 'sig_addr' '0x' 'align'
wrong $any stream_wait_host shmemx_signal_wait_until_on_stream 'sig_addr 0x' 'memory of the host' 'shmemx_malloc'
wrong $any stream_cmp shmemx_signal_wait_until_on_stream 'cmp' '\b99\b'

wrong_end
