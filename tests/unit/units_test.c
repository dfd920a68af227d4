/* SPDX-License-Identifier: MIT */
/* Parts of an array in units, as kernels find them by divisions of 32 bits: the first begins at 0, the last ends at the
 * end, none is longer than another by more than the step at which parts begin; around 2^32 units and far above. */
#include "../../coll/kernel/units_device.h"
#include "../check.h"

static void check_parts(uint64_t units, uint32_t n)
{
    const uint64_t step = units >> 32 != 0 ? 1 << 16 : 1, fair = units / n;
    CHECK_EQ(isod_part_at(units, 0, n), 0);
    CHECK_EQ(isod_part_at(units, n, n), units);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t from = isod_part_at(units, i, n), end = isod_part_at(units, i + 1, n);
        CHECK(from <= end && from % step == 0);
        CHECK(end - from + step > fair && end - from < fair + 2 * step);
    }
}

int main(void)
{
    static const uint64_t around[] = {0, 1000, 1u << 20, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 40};
    for (size_t k = 0; k < sizeof around / sizeof around[0]; k++)
        for (uint64_t units = around[k] - (around[k] > 20 ? 20 : 0); units < around[k] + 20; units++)
            for (uint32_t n = 1; n < 300; n += 1 + n / 8)
                check_parts(units, n);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
