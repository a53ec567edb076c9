/* sim: clock=virtual cards=4 memory=2g reserved=24m context=50m card=1/name=Other_Card
 * NVML from the same state: memory v1 and v2, processes in every ABI, utilisation, identity, and CUDA_VISIBLE_DEVICES. */
#include "check.h"

static int gate[2], report[2];

static int tenant(void)
{
    CUdeviceptr p;
    char c;
    start();
    OK(cuMemAlloc_v2(&p, 200 * MIB));
    CHECK(write(report[1], "x", 1) == 1 && read(gate[0], &c, 1) == 1);
    return 0;
}

static int visible(const char *list, const char *want) /* in a process of its own: names the cards by the first byte of their UUID */
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char got[64] = "";
        int n = 0;
        CUuuid uuid;
        setenv("CUDA_VISIBLE_DEVICES", list, 1);
        CUresult r = cuInit(0);
        if (r)
            exit(r == CUDA_ERROR_NO_DEVICE && !*want ? 0 : 1);
        cuDeviceGetCount(&n);
        for (int i = 0; i < n; i++) {
            cuDeviceGetUuid_v2(&uuid, i);
            sprintf(got + strlen(got), "%d", uuid.bytes[0]);
        }
        exit(strcmp(got, want) != 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status == 0;
}

int main(void)
{
    nvmlDevice_t d, other;
    nvmlMemory_t m1;
    nvmlMemory_v2_t m2 = {.version = NVML_MEMORY_V2_VERSION};
    nvmlProcessInfo_v1_t v1[8];
    nvmlProcessInfo_v2_t v2[8];
    nvmlProcessUtilizationSample_t samples[8];
    nvmlUtilization_t rates;
    nvmlPciInfo_t pci;
    nvmlGpuTopologyLevel_t level;
    unsigned n;
    int version;
    char text[96], list[256], c;
    CHECK(pipe(gate) == 0 && pipe(report) == 0);
    CHECK(visible("2,0", "20") && visible("1", "1") && visible("3,-1,0", "3") && visible("", "") && visible("0,0", "") && visible("9", ""));
    EQUAL(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(3, &d));
    OK(nvmlDeviceGetUUID(d, text, sizeof text));
    OK(nvmlDeviceGetHandleByUUID(text, &other));
    CHECK(d == other);
    CHECK(visible(text, "3"));
    snprintf(list, sizeof list, "%.12s,1", text);
    CHECK(visible(list, "31"));

    pid_t pid = fork();
    if (pid == 0)
        exit(tenant());
    CHECK(read(report[0], &c, 1) == 1);
    OK(nvmlDeviceGetCount_v2(&n));
    EQUAL(n, 4);
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetHandleByIndex_v2(1, &other));
    OK(nvmlDeviceGetName(other, text, sizeof text));
    CHECK(strcmp(text, "Other Card") == 0);
    OK(nvmlDeviceGetMemoryInfo(d, &m1));
    EQUAL(m1.total, 2048 * MIB);
    EQUAL(m1.used, (24 + 50 + 200) * MIB);
    EQUAL(m1.free + m1.used, m1.total);
    OK(nvmlDeviceGetMemoryInfo_v2(d, &m2));
    EQUAL(m2.used, 250 * MIB);
    EQUAL(m2.reserved, 24 * MIB);
    EQUAL(m2.total, m2.free + m2.used + m2.reserved);
    m2.version = 1;
    EQUAL(nvmlDeviceGetMemoryInfo_v2(d, &m2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    n = 0;
    EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    EQUAL(n, 1);
    n = 8;
    OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, v2));
    EQUAL(n, 1);
    CHECK(v2[0].pid == (unsigned)pid && v2[0].usedGpuMemory == 250 * MIB && v2[0].gpuInstanceId == NVML_NO_INSTANCE);

    start();
    n = 8;
    OK(nvmlDeviceGetComputeRunningProcesses(d, &n, v1)); /* 16-byte entries */
    EQUAL(n, 2);
    EQUAL(sizeof *v1, 16);
    CHECK(v1[0].pid + v1[1].pid == (unsigned)pid + (unsigned)getpid());
    CHECK(v1[0].usedGpuMemory + v1[1].usedGpuMemory == 300 * MIB);
    OK(nvmlDeviceGetGraphicsRunningProcesses_v3(d, &n, v2));
    EQUAL(n, 0);
    n = 8;
    EQUAL(nvmlDeviceGetProcessUtilization(d, samples, &n, 0), NVML_ERROR_NOT_FOUND);
    CUfunction f = kernel("tessera-sim-module\nkernel k ns=1000000\n", "k");
    for (int i = 0; i < 500; i++) { /* busy 1 ms of every 4 */
        OK(launch(f, 200, NULL));
        OK(cuCtxSynchronize());
        cuSimSleep(3000000);
    }
    n = 8;
    OK(nvmlDeviceGetProcessUtilization(d, samples, &n, 0));
    EQUAL(n, 1);
    EQUAL(samples[0].pid, getpid());
    BETWEEN(samples[0].smUtil, 24, 26);
    n = 8;
    EQUAL(nvmlDeviceGetProcessUtilization(d, samples, &n, samples[0].timeStamp), NVML_ERROR_NOT_FOUND);
    OK(nvmlDeviceGetUtilizationRates(d, &rates));
    BETWEEN(rates.gpu, 24, 26);
    cuSimSleep(2000000000);
    OK(nvmlDeviceGetUtilizationRates(d, &rates));
    EQUAL(rates.gpu, 0);
    OK(nvmlSystemGetCudaDriverVersion_v2(&version));
    EQUAL(version, 12080);
    OK(nvmlDeviceGetPciInfo_v3(other, &pci));
    OK(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &d));
    CHECK(d == other && strcmp(pci.busIdLegacy, "0000:0F:00.0") == 0);
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetTopologyCommonAncestor(d, other, &level));
    EQUAL(level, NVML_TOPOLOGY_SINGLE);
    CHECK(write(gate[1], "x", 1) == 1);
    expect_exit(pid, 0);
    OK(nvmlDeviceGetMemoryInfo(d, &m1));
    EQUAL(m1.used, (24 + 50) * MIB);
    OK(nvmlShutdown());
    EQUAL(nvmlDeviceGetMemoryInfo(d, &m1), NVML_ERROR_UNINITIALIZED);
    return 0;
}
