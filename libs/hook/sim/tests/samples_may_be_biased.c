/* sim: clock=virtual participants=2 memory=4g bias=1 accounting=1 context=300m-500m
 * With bias a process counts as busy in NVML's samples also while its kernel waits for a turn; the card's own figure, and accounting, do
 * not. Contexts of processes differ in size. */
#include "check.h"

static const char text[] = "tessera-sim-module\nkernel ten ns=10000000\n";

static void work(void)
{
    CUfunction ten = kernel(text, "ten");
    cuSimJoin();
    cuSimSleep(1000);
    for (int i = 0; i < 100; i++)
        OK(launch(ten, 200, NULL));
    OK(cuCtxSynchronize());
}

int main(void)
{
    nvmlDevice_t d;
    nvmlProcessUtilizationSample_t samples[8];
    nvmlProcessesUtilizationInfo_v1_t info = {.version = NVML_PROCESSES_UTILIZATION_V1_VERSION};
    nvmlProcessUtilizationInfo_v1_t rows[8];
    nvmlProcessDetailList_v1_t list = {.version = NVML_PROCESS_DETAIL_LIST_V1_VERSION};
    nvmlProcessDetail_v1_t details[8];
    nvmlAccountingStats_t stats;
    nvmlGpuFabricInfo_v2_t fabric = {.version = sizeof fabric | 2u << 24};
    nvmlFieldValue_t field = {.fieldId = 83};
    nvmlSample_t sample;
    unsigned n = 8, pids[8], percent, period;
    int gate[2], kind;
    unsigned long long energy;
    char c;
    CHECK(pipe(gate) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        start();
        work();
        cuSimLeave();
        close(gate[1]);
        CHECK(read(gate[0], &c, 1) == 0);
        exit(0);
    }
    start();
    work();
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
    OK(nvmlDeviceGetProcessUtilization(d, samples, &n, 0));
    EQUAL(n, 2);
    CHECK(samples[0].smUtil + samples[1].smUtil > 150); /* more than one card */
    OK(nvmlDeviceGetSamples(d, 1, 0, &kind, &n, &sample));
    BETWEEN(sample.sampleValue, 99, 100); /* whole percents, and of the card never more than all */
    info.processSamplesCount = 8;
    info.procUtilArray = rows;
    OK(nvmlDeviceGetProcessesUtilizationInfo(d, &info));
    CHECK(info.processSamplesCount == 2 && rows[0].smUtil == samples[0].smUtil && rows[0].timeStamp == samples[0].timeStamp);
    info.version = 7;
    EQUAL(nvmlDeviceGetProcessesUtilizationInfo(d, &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    n = 8;
    OK(nvmlDeviceGetAccountingPids(d, &n, pids));
    EQUAL(n, 2);
    OK(nvmlDeviceGetAccountingStats(d, (unsigned)pid, &stats));
    BETWEEN(stats.gpuUtilization, 48, 51); /* the time that it really had */
    EQUAL(nvmlDeviceGetRunningProcessDetailList(d, &list), NVML_ERROR_INSUFFICIENT_SIZE);
    EQUAL(list.numProcArrayEntries, 2);
    list.procArray = details;
    OK(nvmlDeviceGetRunningProcessDetailList(d, &list));
    CHECK(details[0].usedGpuMemory != details[1].usedGpuMemory);
    for (int i = 0; i < 2; i++)
        CHECK(details[i].usedGpuMemory >= 300 * MIB && details[i].usedGpuMemory <= 500 * MIB);
    OK(nvmlDeviceGetEncoderUtilization(d, &percent, &period));
    CHECK(percent == 0 && period == 166666);
    OK(nvmlDeviceGetTotalEnergyConsumption(d, &energy));
    CHECK(energy > 300000); /* a second at 360 W */
    OK(nvmlDeviceGetGpuFabricInfoV(d, &fabric));
    EQUAL(fabric.state, 0);
    OK(nvmlDeviceGetFieldValues(d, 1, &field));
    EQUAL(field.nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    EQUAL(nvmlDeviceGetNvLinkRemoteDeviceType(d, 0, &kind), NVML_ERROR_NOT_SUPPORTED);
    cuSimLeave();
    close(gate[1]);
    expect_exit(pid, 0);
    return 0;
}
