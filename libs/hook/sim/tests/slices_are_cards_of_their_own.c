/* sim: clock=virtual cards=2 memory=4g context=50m sms=98 card=1/mig=2
 * A card in MIG mode: a process has one slice of it, by name or the first; NVML shows the slices, and measures none. */
#include "check.h"

static int gate[2], report[2];

static int tenant(const char *name, int bytes_mib)
{
    CUdeviceptr p;
    CUuuid card, slice;
    size_t total, left;
    int sms;
    char c;
    setenv("CUDA_VISIBLE_DEVICES", name, 1);
    start();
    OK(cuMemGetInfo_v2(&left, &total));
    EQUAL(total, 2048 * MIB);
    OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EQUAL(sms, 49);
    OK(cuDeviceGetUuid(&card, 0));
    OK(cuDeviceGetUuid_v2(&slice, 0));
    CHECK(memcmp(&card, &slice, sizeof card) != 0);
    OK(cuMemAlloc_v2(&p, (size_t)bytes_mib * MIB));
    EQUAL(cuMemAlloc_v2(&p, 1900 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(write(report[1], "x", 1) == 1 && read(gate[0], &c, 1) == 1);
    return 0;
}

int main(void)
{
    nvmlDevice_t card, slice, back, other;
    nvmlMemory_t memory;
    nvmlProcessInfo_t infos[8];
    nvmlProcessUtilizationSample_t samples[8];
    nvmlDeviceAttributes_t attributes;
    nvmlUtilization_t rates;
    char name[2][96], c;
    unsigned n, is, current, pending;
    CHECK(pipe(gate) == 0 && pipe(report) == 0);
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetCount_v2(&n));
    EQUAL(n, 2);
    OK(nvmlDeviceGetHandleByIndex_v2(1, &card));
    OK(nvmlDeviceGetMigMode(card, &current, &pending));
    EQUAL(current, 1);
    for (unsigned i = 0; i < 2; i++) {
        OK(nvmlDeviceGetMigDeviceHandleByIndex(card, i, &slice));
        OK(nvmlDeviceGetUUID(slice, name[i], sizeof name[i]));
        CHECK(strncmp(name[i], "MIG-", 4) == 0);
    }
    EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(card, 2, &slice), NVML_ERROR_NOT_FOUND);
    pid_t first = fork();
    if (first == 0)
        exit(tenant("1", 100)); /* the first slice */
    CHECK(read(report[0], &c, 1) == 1);
    pid_t second = fork();
    if (second == 0)
        exit(tenant(name[1], 300));
    CHECK(read(report[0], &c, 1) == 1);

    OK(nvmlDeviceGetHandleByUUID(name[1], &slice));
    OK(nvmlDeviceIsMigDeviceHandle(slice, &is));
    EQUAL(is, 1);
    OK(nvmlDeviceGetGpuInstanceId(slice, &n));
    EQUAL(n, 2);
    OK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice, &back));
    CHECK(back == card);
    OK(nvmlDeviceGetAttributes_v2(slice, &attributes));
    CHECK(attributes.multiprocessorCount == 49 && attributes.memorySizeMB == 2048);
    OK(nvmlDeviceGetMemoryInfo(slice, &memory));
    CHECK(memory.total == 2048 * MIB && memory.used == 350 * MIB);
    OK(nvmlDeviceGetMemoryInfo(card, &memory));
    CHECK(memory.total == 4096 * MIB && memory.used == 500 * MIB);
    n = 8;
    OK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, infos));
    CHECK(n == 2 && infos[0].gpuInstanceId == 1 && infos[1].gpuInstanceId == 2);
    n = 8;
    OK(nvmlDeviceGetComputeRunningProcesses_v3(slice, &n, infos));
    CHECK(n == 1 && infos[0].pid == (unsigned)second);
    n = 8;
    EQUAL(nvmlDeviceGetProcessUtilization(card, samples, &n, 0), NVML_ERROR_NOT_SUPPORTED);
    EQUAL(nvmlDeviceGetUtilizationRates(card, &rates), NVML_ERROR_NOT_SUPPORTED);
    OK(nvmlDeviceGetHandleByIndex_v2(0, &other));
    OK(nvmlDeviceGetUtilizationRates(other, &rates));
    EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(other, 0, &slice), NVML_ERROR_NOT_SUPPORTED);
    CHECK(write(gate[1], "xx", 2) == 2);
    expect_exit(first, 0);
    expect_exit(second, 0);
    return 0;
}
