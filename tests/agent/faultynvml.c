/* An NVML whose cards fail as a file says, read anew at every call: words such as
 *   cards=2 xid=79@1 lost=1@0 dead=1@0 mig=1 recovery=1@0 rows=1@0 nvlink=2 switch=4 unified=1@0 mismatch=1 hang=1
 * It lacks many functions, as old drivers do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, TIMEOUT = 10, LOST = 15, MISMATCH = 18 };
static char handle[16];
typedef char *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char full[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { Device device; unsigned long long type, data; unsigned gi, ci; } Event;
typedef struct { unsigned field, scope; long long stamp, latency; unsigned kind; int ret; union { unsigned ui; unsigned long long ull; } value; } Field;

static char *said(char *text, size_t size) {
    FILE *f = fopen(getenv("FAULTY_NVML"), "r");
    size_t n = f ? fread(text, 1, size - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return text;
}

/* The number of `word=number`, or of `word=number@card` for that card; 0 where it is not said. */
static unsigned word(const char *name, int card) {
    char text[512], *save, *at = strtok_r(said(text, sizeof text), " \n", &save);
    for (; at; at = strtok_r(NULL, " \n", &save)) {
        size_t n = strlen(name);
        char *here = strchr(at, '@');
        if (!strncmp(at, name, n) && at[n] == '=' && (!here || card < 0 || atoi(here + 1) == card))
            return (unsigned)atoi(at + n + 1);
    }
    return 0;
}

static int card_of(Device d) { return (int)(d - handle); }
static int alive(void) {
    while (word("hang", -1))
        usleep(2000);
    return word("mismatch", -1) ? MISMATCH : OK;
}
static int lost(Device d) { return word("lost", card_of(d)) ? LOST : alive(); }

int nvmlInitWithFlags(unsigned f) { (void)f; return alive(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int r) { return r == LOST ? "GPU is lost" : r == MISMATCH ? "Driver/library version mismatch" : "Error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned n) { snprintf(to, n, "418.40"); return alive(); }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = word("cards", -1); return alive(); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device *d) { *d = handle + i; return word("dead", (int)i) ? LOST : alive(); }
int nvmlDeviceGetUUID(Device d, char *to, unsigned n) { snprintf(to, n, "GPU-%d", card_of(d)); return alive(); }
int nvmlDeviceGetName(Device d, char *to, unsigned n) { (void)d; snprintf(to, n, "NVIDIA Test"); return alive(); }
int nvmlDeviceGetMemoryInfo(Device d, Memory *m) { *m = (Memory){16ull << 30, 15ull << 30, 1ull << 30}; return word("unified", card_of(d)) ? NOT_SUPPORTED : lost(d); }
int nvmlDeviceGetPciInfo_v3(Device d, Pci *p) { memset(p, 0, sizeof *p); p->bus = (unsigned)card_of(d) + 1; return alive(); }
int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int *level) { (void)a; (void)b; *level = 40; return OK; }
int nvmlDeviceGetMigMode(Device d, unsigned *now, unsigned *next) { *now = *next = word("mig", card_of(d)); return OK; }
int nvmlDeviceGetNvLinkState(Device d, unsigned link, unsigned *on) { (void)d; *on = link < word("nvlink", -1) + word("switch", -1); return OK; }
int nvmlDeviceGetNvLinkRemoteDeviceType(Device d, unsigned link, unsigned *kind) { (void)d; *kind = link < word("nvlink", -1) ? 0 : 2; return OK; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, unsigned link, Pci *p) { (void)link; memset(p, 0, sizeof *p); p->bus = card_of(d) ? 1 : 2; return OK; }
int nvmlDeviceGetRemappedRows(Device d, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
    *c = *u = *failed = 0;
    *pending = word("rows", card_of(d));
    return OK;
}
int nvmlDeviceGetFieldValues(Device d, int n, Field *f) { (void)n; f->ret = OK; f->value.ui = word("recovery", card_of(d)); return OK; }
int nvmlEventSetCreate(void **set) { *set = handle; return OK; }
int nvmlDeviceRegisterEvents(Device d, unsigned long long types, void *set) { (void)d; (void)types; (void)set; return OK; }
int nvmlEventSetWait_v2(void *set, Event *e, unsigned ms) {
    static unsigned told; /* once for each new code */
    (void)set, (void)ms;
    for (int card = 0; card < 16; card++)
        if (word("xid", card) && word("xid", card) != told) {
            told = word("xid", card);
            *e = (Event){handle + card, 8, told, ~0u, ~0u};
            return OK;
        }
    return TIMEOUT;
}
