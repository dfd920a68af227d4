#!/bin/sh
# SPDX-License-Identifier: MIT
# Each wrong use of a collective on a stream is refused with one sentence.
# usage: LAUNCH="oshrun -n" coll_stream_errors.sh PROGRAM
program=$1
. "$(dirname "$0")/../wrong_use.sh"
coll=shmemx_coll_on_stream
table=$(mktemp) || exit 1
trap 'rm -f "$out" "$table"' EXIT
write_table() { printf '# a table\n1 x %s\nallreduce lines 4k any 2\n' "$1" >"$table"; }
# A table is for one kind of device, and the sentence about another one's says which this one is.
write_table nothing
device=$(SHMEM_COLL_TABLE=$table $LAUNCH 1 "$program" table_line 2>&1 | sed -n 's/.*this device is "\(.*\)".*/\1/p' |
    head -n 1)
write_table "$device"

wrong $any coll_null $coll 'coll' 'null'
wrong $any kind_negative $coll 'kind' '-1' '0\.\.11'
wrong $any kind_large $coll 'kind' '\b12\b' '0\.\.11'
wrong $any team_invalid "$coll, SHMEMX_ALLREDUCE" 'team'
wrong $any slot_negative "$coll, SHMEMX_BARRIER" 'slot' '-1' '0\.\.255'
wrong $any slot_large "$coll, SHMEMX_ALLREDUCE" 'slot' '\b256\b' '0\.\.255'
wrong $any type_negative "$coll, SHMEMX_FCOLLECT" 'type' '-1' '0\.\.16'
wrong $any type_large "$coll, SHMEMX_FCOLLECT" 'type' '\b17\b' '0\.\.16'
wrong $any op_negative "$coll, SHMEMX_ALLREDUCE" 'op' '-1' '0\.\.8'
wrong $any op_large "$coll, SHMEMX_REDUCESCATTER" 'op' '\b9\b' '0\.\.8'
wrong $any op_of_floats "$coll, SHMEMX_ALLREDUCE" 'SHMEMX_XOR' 'SHMEMX_HALF'
wrong $any avg_of_integers "$coll, SHMEMX_ALLREDUCE" 'SHMEMX_AVG' 'SHMEMX_INT32'
wrong $any scaled_complex "$coll, SHMEMX_REDUCESCATTER" 'SHMEMX_SCALED_SUM' 'SHMEMX_COMPLEXD'
wrong $any op_of_complex "$coll, SHMEMX_REDUCESCATTER" 'SHMEMX_MAX' 'SHMEMX_COMPLEXF'
wrong $any nelems_huge "$coll, SHMEMX_ALLTOALL" 'nelems' '[0-9]{10}'
wrong $any nelems_wrap "$coll, SHMEMX_FCOLLECT" 'nelems' '[0-9]{10}'
wrong $any nelems_of_a_block "$coll, SHMEMX_FCOLLECT" 'nelems' '\b17179869184\b' '64 GiB'
wrong $any root_large "$coll, SHMEMX_BROADCAST" 'root' '\b2\b' '0\.\.1'
wrong $any root_negative "$coll, SHMEMX_BROADCAST" 'root' '-1' '0\.\.1'
wrong $any to_large "$coll, SHMEMX_PERMUTE" 'to' '\b5\b' '0\.\.1'
wrong $any from_large "$coll, SHMEMX_PERMUTE" 'from' '\b6\b' '0\.\.1'
wrong $any to_itself "$coll, SHMEMX_PERMUTE" 'to' 'from' 'itself'
wrong $any dest_null "$coll, SHMEMX_FCOLLECT" 'dest' 'null'
wrong $any source_null "$coll, SHMEMX_BROADCAST" 'source' 'null'
wrong $any dest_odd "$coll, SHMEMX_ALLTOALL" 'dest' '0x' 'aligned to 4'
wrong $any source_odd "$coll, SHMEMX_ALLREDUCE" 'source' '0x' 'aligned to 4'
wrong $any overlap "$coll, SHMEMX_ALLREDUCE" 'dest' 'source' 'overlap'
wrong $any overlap_blocks "$coll, SHMEMX_ALLTOALL" 'dest' 'source' 'overlap'
wrong $any in_place_alltoall "$coll, SHMEMX_ALLTOALL" 'overlap'
wrong $any background_two "$coll, SHMEMX_ALLREDUCE" 'background' '\b2\b' '0\.\.1'
wrong $any background_negative "$coll, SHMEMX_SYNC" 'background' '-1' '0\.\.1'
wrong $any engines_two "$coll, SHMEMX_FCOLLECT" 'engines' '\b2\b' '0\.\.1'
wrong $any engines_reduce "$coll, SHMEMX_ALLREDUCE" 'engines' 'fcollect'
wrong $any engines_own "$coll, SHMEMX_FCOLLECT" 'engines' 'dest' 'symmetric'
wrong SHMEM_FORCE_PROXY=1 engines_proxy "$coll, SHMEMX_ALLTOALL" 'engines' 'pointers'
wrong $any signals_kind "$coll, SHMEMX_ALLTOALL" 'signals' 'SHMEMX_FCOLLECT'
wrong $any signals_alone "$coll, SHMEMX_FCOLLECT" 'signals' 'engines'
wrong $any signals_odd "$coll, SHMEMX_FCOLLECT" 'signals' '0x' 'aligned to 8'
wrong $any signals_own "$coll, SHMEMX_FCOLLECT" 'signals' '0x' 'symmetric'
wrong $any value_null "$coll, SHMEMX_FCOLLECT" 'signal_value' 'null'
wrong $any value_alone "$coll, SHMEMX_FCOLLECT" 'signal_value' 'signals'
wrong $any chunk_zero "$coll, SHMEMX_FCOLLECT" 'chunk_bytes' '\b0\b' 'at least 1'
wrong $any blocks_null "$coll, SHMEMX_ALLTOALLV" 'blocks' 'null'
wrong $any v_bytes_null "$coll, SHMEMX_ALLTOALLV" 'blocks->bytes' 'null'
wrong $any v_source_null "$coll, SHMEMX_ALLTOALLV" 'blocks->source_offset' 'null'
wrong $any v_offset_odd "$coll, SHMEMX_ALLTOALLV" 'blocks->dest_offset' '0x' 'aligned to 8'
wrong $any v_received_own "$coll, SHMEMX_ALLTOALLV" 'received' 'symmetric'
wrong $any v_dest_own "$coll, SHMEMX_ALLTOALLV" 'dest' 'symmetric'
wrong $any host_blocks_kind "$coll, SHMEMX_ALLTOALL" 'host_blocks' 'SHMEMX_ALLTOALLV'
wrong $any host_blocks_both "$coll, SHMEMX_ALLTOALLV" 'blocks and host_blocks' 'null'
wrong $any host_blocks_null "$coll, SHMEMX_ALLTOALLV" 'send_bytes' 'null'
wrong $any host_blocks_dest "$coll, SHMEMX_ALLTOALLV" 'dest' 'null'
wrong $any host_blocks_itself "$coll, SHMEMX_ALLTOALLV" 'send_bytes' '\b64\b' 'receive_bytes' '\b32\b' 'itself'
wrong $any splits_kind "$coll, SHMEMX_ALLTOALL" 'splits' 'SHMEMX_FCOLLECT and SHMEMX_REDUCESCATTER'
wrong $any splits_engines "$coll, SHMEMX_FCOLLECT" 'engines' 'without splits'
wrong $any splits_null "$coll, SHMEMX_REDUCESCATTER" 'splits->nelems' 'null'
wrong $any splits_fall "$coll, SHMEMX_FCOLLECT" 'splits->offset' '\b4\b' 'ends at 12'
wrong $any splits_long "$coll, SHMEMX_REDUCESCATTER" 'split 1' '\b4 elements from 4' '\b7\b'
wrong $any gather_root "$coll, SHMEMX_GATHER" 'root' '\b2\b' '0\.\.1'
wrong $any scatter_null "$coll, SHMEMX_SCATTER" 'dest' 'null'
wrong $any reduce_op "$coll, SHMEMX_REDUCE" 'SHMEMX_AVG' 'SHMEMX_INT32'
wrong $any half_symmetric "$coll, SHMEMX_FCOLLECT" 'dest' '0x' 'passes an end' 'as one buffer'
wrong $any two_buffers "$coll, SHMEMX_FCOLLECT" 'dest' '0x' 'passes an end' 'as one buffer'
wrong $any before_device $coll 'shmemx_device_init'
wrong $any captured "$coll, SHMEMX_ALLREDUCE" 'capture' '\b99\b'
wrong $any explained "$coll, SHMEMX_BROADCAST" 'root' '\b77\b' '0\.\.1'
# The members' calls differ: the sentence names both.
wrong SHMEM_DEBUG=1 differ_nelems $coll mismatch 'pe 0 calls' 'pe 1 calls' nelems 'SHMEMX_ALLREDUCE\(16 ' 'SHMEMX_ALLREDUCE\(32 '
wrong SHMEM_DEBUG=1 differ_nothing $coll mismatch 'pe 0 calls' 'pe 1 calls' nelems 'SHMEMX_FCOLLECT\(16 ' 'SHMEMX_FCOLLECT\(0 '
wrong SHMEM_DEBUG=1 differ_type $coll mismatch 'pe 0 calls' 'pe 1 calls' type SHMEMX_INT32 SHMEMX_FLOAT
wrong SHMEM_DEBUG=1 differ_op $coll mismatch 'pe 0 calls' 'pe 1 calls' 'of op' SHMEMX_SUM SHMEMX_MAX
wrong SHMEM_DEBUG=1 differ_root $coll mismatch 'pe 0 calls' 'pe 1 calls' root 'root 0' 'root 1'
wrong SHMEM_DEBUG=1 differ_kind $coll mismatch 'pe 0 calls' 'pe 1 calls' kind SHMEMX_FCOLLECT SHMEMX_ALLTOALL
wrong SHMEM_DEBUG=1 differ_engines $coll mismatch 'pe 0 calls' 'pe 1 calls' engines 'engines, dest'
wrong SHMEM_DEBUG=1 differ_same_place $coll 'mismatch of same_place in' 'pe 0 calls' 'pe 1 calls' ', same_place\)'
wrong SHMEM_DEBUG=1 differ_background $coll 'mismatch of background in' 'pe 0 calls' 'pe 1 calls' ', background[,)]'
wrong SHMEM_DEBUG=1 differ_dest $coll mismatch 'pe 0 calls' 'pe 1 calls' 'the place of dest' shmemx_rendezvous 'of segment 0'
wrong SHMEM_DEBUG=1 differ_symmetric $coll mismatch 'pe 0 calls' 'pe 1 calls' 'the reach of dest' 'dest not reachable'
wrong SHMEM_DEBUG=1 differ_partner $coll mismatch 'pe 0 calls' 'pe 1 calls' 'to and from' 'to 0, from 0|to 1, from 1'
wrong SHMEM_DEBUG=1 differ_reduce_root $coll mismatch 'pe 0 calls' 'pe 1 calls' root 'root 0' 'root 1'
wrong SHMEM_DEBUG=1 differ_splits $coll mismatch 'pe 0 calls' 'pe 1 calls' 'of splits'
wrong SHMEM_DEBUG=1 differ_host_blocks $coll mismatch 'pe 0 calls' 'pe 1 calls' 'sizes of host_blocks' 'expects 32 bytes' 'sends it 64'
wrong SHMEM_DEBUG=1 differ_late $coll mismatch 'pe 0 calls' 'pe 1 calls' nelems 'call 31 ' 'SHMEMX_FCOLLECT\(16 ' 'SHMEMX_FCOLLECT\(8 '
wrong SHMEM_DEBUG=1 differ_batch $coll mismatch 'pe 0 calls' 'pe 1 calls' 'of the batch' '1 of 2 that a batch does at once'
wrong SHMEM_DEBUG=1 differ_slot $coll 'mismatch' 'slot is [23] on pe [01] and [23] on pe [01]'
wrong SHMEM_COLL=broadcast=ll forced_kind SHMEM_COLL '"broadcast"' 'host\.broadcast or stream\.broadcast'
wrong SHMEM_COLL=stream.allgather=ll forced_kind SHMEM_COLL 'allgather' 'fcollect'
wrong SHMEM_COLL=stream.allreduce=ring forced_name SHMEM_COLL 'ring' 'twoshot_ll'
wrong SHMEM_COLL=stream.allreduce=ll:0 forced_blocks SHMEM_COLL 'blocks' '"0"' '1\.\.'
wrong SHMEM_COLL=stream.allreduce=ll:2x9999 forced_threads SHMEM_COLL 'threads' '9999' '1\.\.'
wrong SHMEM_COLL_TABLE=/nowhere table_missing SHMEM_COLL_TABLE '/nowhere' 'no such file'
wrong SHMEM_COLL_TABLE=$table table_line SHMEM_COLL_TABLE ':3:' '\b5 fields' '\b6\b'
wrong_end
