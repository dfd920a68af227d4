#!/bin/sh
# SPDX-License-Identifier: MIT
# Each wrong use of a collective on a stream is refused with one sentence.
# usage: LAUNCH="oshrun -n" coll_stream_errors.sh PROGRAM
program=$1
. "$(dirname "$0")/../wrong_use.sh"
call=shmemx_coll_on_stream
table=$(mktemp) || exit 1
trap 'rm -f "$out" "$table"' EXIT
printf '# a table\n1 x cpu\nallreduce lines 4k any 2\n' >"$table"

wrong $any coll_null $call 'coll' 'null'
wrong $any kind_negative $call 'kind' '-1' '0\.\.8'
wrong $any kind_large $call 'kind' '\b9\b' '0\.\.8'
wrong $any team_invalid "$call, SHMEMX_ALLREDUCE" 'team'
wrong $any slot_negative "$call, SHMEMX_BARRIER" 'slot' '-1' '0\.\.255'
wrong $any slot_large "$call, SHMEMX_ALLREDUCE" 'slot' '\b256\b' '0\.\.255'
wrong $any type_negative "$call, SHMEMX_FCOLLECT" 'type' '-1' '0\.\.13'
wrong $any type_large "$call, SHMEMX_FCOLLECT" 'type' '\b14\b' '0\.\.13'
wrong $any op_negative "$call, SHMEMX_ALLREDUCE" 'op' '-1' '0\.\.6'
wrong $any op_large "$call, SHMEMX_REDUCESCATTER" 'op' '\b7\b' '0\.\.6'
wrong $any op_of_floats "$call, SHMEMX_ALLREDUCE" 'SHMEMX_XOR' 'SHMEMX_HALF'
wrong $any op_of_complex "$call, SHMEMX_REDUCESCATTER" 'SHMEMX_MAX' 'SHMEMX_COMPLEXF'
wrong $any nelems_huge "$call, SHMEMX_ALLTOALL" 'nelems' '[0-9]{10}'
wrong $any root_large "$call, SHMEMX_BROADCAST" 'root' '\b2\b' '0\.\.1'
wrong $any root_negative "$call, SHMEMX_BROADCAST" 'root' '-1' '0\.\.1'
wrong $any to_large "$call, SHMEMX_PERMUTE" 'to' '\b5\b' '0\.\.1'
wrong $any from_large "$call, SHMEMX_PERMUTE" 'from' '\b6\b' '0\.\.1'
wrong $any to_itself "$call, SHMEMX_PERMUTE" 'to' 'from' 'itself'
wrong $any dest_null "$call, SHMEMX_FCOLLECT" 'dest' 'null'
wrong $any source_null "$call, SHMEMX_BROADCAST" 'source' 'null'
wrong $any dest_odd "$call, SHMEMX_ALLTOALL" 'dest' '0x' 'aligned to 4'
wrong $any source_odd "$call, SHMEMX_ALLREDUCE" 'source' '0x' 'aligned to 4'
wrong $any overlap "$call, SHMEMX_ALLREDUCE" 'dest' 'source' 'overlap'
wrong $any overlap_blocks "$call, SHMEMX_ALLTOALL" 'dest' 'source' 'overlap'
wrong $any in_place_alltoall "$call, SHMEMX_ALLTOALL" 'overlap'
wrong $any engines_two "$call, SHMEMX_FCOLLECT" 'engines' '\b2\b' '0\.\.1'
wrong $any engines_reduce "$call, SHMEMX_ALLREDUCE" 'engines' 'fcollect'
wrong $any engines_own "$call, SHMEMX_FCOLLECT" 'engines' 'dest' 'symmetric'
wrong SHMEM_FORCE_PROXY=1 engines_proxy "$call, SHMEMX_ALLTOALL" 'engines' 'pointers'
wrong $any signals_kind "$call, SHMEMX_ALLTOALL" 'signals' 'SHMEMX_FCOLLECT'
wrong $any signals_alone "$call, SHMEMX_FCOLLECT" 'signals' 'engines'
wrong $any signals_odd "$call, SHMEMX_FCOLLECT" 'signals' '0x' 'aligned to 8'
wrong $any signals_own "$call, SHMEMX_FCOLLECT" 'signals' '0x' 'symmetric'
wrong $any value_null "$call, SHMEMX_FCOLLECT" 'signal_value' 'null'
wrong $any value_alone "$call, SHMEMX_FCOLLECT" 'signal_value' 'signals'
wrong $any chunk_zero "$call, SHMEMX_FCOLLECT" 'chunk_bytes' '\b0\b' 'at least 1'
wrong $any blocks_null "$call, SHMEMX_ALLTOALLV" 'blocks' 'null'
wrong $any v_bytes_null "$call, SHMEMX_ALLTOALLV" 'blocks->bytes' 'null'
wrong $any v_source_null "$call, SHMEMX_ALLTOALLV" 'blocks->source_offset' 'null'
wrong $any v_offset_odd "$call, SHMEMX_ALLTOALLV" 'blocks->dest_offset' '0x' 'aligned to 8'
wrong $any v_received_own "$call, SHMEMX_ALLTOALLV" 'received' 'symmetric'
wrong $any v_dest_own "$call, SHMEMX_ALLTOALLV" 'dest' 'symmetric'
wrong $any half_symmetric "$call, SHMEMX_FCOLLECT" 'dest' '0x' 'symmetric in part'
wrong $any before_device $call 'shmemx_device_init'
wrong $any captured "$call, SHMEMX_ALLREDUCE" 'capture' '\b99\b'
wrong $any explained "$call, SHMEMX_BROADCAST" 'root' '\b77\b' '0\.\.1'
wrong SHMEM_COLL_ON_STREAM=allgather=lines forced_kind SHMEM_COLL_ON_STREAM 'allgather' 'fcollect'
wrong SHMEM_COLL_ON_STREAM=allreduce=ring forced_name SHMEM_COLL_ON_STREAM 'ring' 'lines2'
wrong SHMEM_COLL_ON_STREAM=allreduce=lines:0 forced_blocks SHMEM_COLL_ON_STREAM 'blocks' '"0"' '1\.\.'
wrong SHMEM_COLL_ON_STREAM=allreduce=lines:2x9999 forced_threads SHMEM_COLL_ON_STREAM 'threads' '9999' '1\.\.'
wrong SHMEM_COLL_TABLE=/nowhere table_missing SHMEM_COLL_TABLE '/nowhere' 'no such file'
wrong SHMEM_COLL_TABLE=$table table_line SHMEM_COLL_TABLE ':3:' '\b5 fields' '\b6\b'
wrong_end
