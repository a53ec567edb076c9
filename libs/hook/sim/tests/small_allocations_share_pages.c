/* sim: clock=virtual memory=1g context=0
 * Memory is taken in pages of 2 MiB: allocations of half a page and more have their own, smaller ones share, and hold theirs to the last. */
#include "check.h"

int main(void)
{
    CUdeviceptr large, small[5000], more;
    CUipcMemHandle handle;
    start();
    OK(cuMemAlloc_v2(&large, MIB));
    EQUAL(cuSimCardUsed(0), 2 * MIB);
    OK(cuMemFree_v2(large));
    OK(cuMemAlloc_v2(&large, 3 * MIB));
    EQUAL(cuSimCardUsed(0), 4 * MIB);
    for (int i = 0; i < 5000; i++)
        OK(cuMemAlloc_v2(&small[i], 1000)); /* 1,024 bytes each */
    EQUAL(cuSimCardUsed(0), (4 + 6) * MIB);
    OK(cuMemAlloc_v2(&more, MIB / 2 - 512));
    EQUAL(cuSimCardUsed(0), (4 + 6) * MIB); /* fits beside them */
    OK(cuIpcGetMemHandle(&handle, small[0]));
    EQUAL(cuSimCardUsed(0), (4 + 6 + 2) * MIB); /* what is shared with others has pages of its own */
    OK(cuMemFree_v2(small[0]));
    for (int i = 1; i < 5000; i++)
        if (i % 2000)
            OK(cuMemFree_v2(small[i]));
    EQUAL(cuSimCardUsed(0), (4 + 2 + 4) * MIB); /* one is left in each of two, and the larger one lies in the third */
    OK(cuMemFree_v2(small[2000]));
    OK(cuMemFree_v2(small[4000]));
    OK(cuMemFree_v2(more));
    EQUAL(cuSimCardUsed(0), 4 * MIB);
    OK(cuMemFree_v2(large));
    EQUAL(cuSimCardUsed(0), 0);
    CHECK(cuSimConsistent());
    return 0;
}
