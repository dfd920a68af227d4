# SPDX-License-Identifier: MIT
"""Calls by the names that torch has had since 2.13, in older torch too. The import needs no torch."""


def all_gather_single(*arguments, **options):
    import torch.distributed as dist
    return (getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor)(*arguments, **options)


def reduce_scatter_single(*arguments, **options):
    import torch.distributed as dist
    return (getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor)(*arguments, **options)
