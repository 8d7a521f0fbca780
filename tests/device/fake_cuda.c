/* A CUDA driver without a device, for tests.

   Device memory is host memory whose blocks are known; every copy and every pointer argument is
   checked against them.  A module is a real cubin: its parameter sizes and block size are read
   from it and compared with each launch.  Errors can be planted; launches go to a callback. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define NO_DEVICE 100
#define INVALID_CONTEXT 201
#define NOT_FOUND 500
#define LAUNCH_RESOURCES 701
#define CAPTURE_UNSUPPORTED 900
#define MOST_PARAMETERS 128

typedef unsigned long long address;
typedef struct Block { address start; size_t size; int context; struct Block *next; } Block;
typedef struct Function {
    char name[512];
    int parameters, sizes[MOST_PARAMETERS], offsets[MOST_PARAMETERS];
    int threads, shared;
} Function;
typedef struct Work {
    int kind; Function *function; int grid; uint64_t values[MOST_PARAMETERS];
    address target, source; size_t size; int byte; struct Work *next;
} Work;
typedef void (*callback)(const char *, int, int, const uint64_t *);

static Block *blocks;
static Work *captured, **tail;
static intptr_t capturing;  /* the stream that captures */
static int streams, launches, live_modules, live_graphs, live_events, live_pinned, late, devices = 1, version = 12040;
static size_t limit = (size_t)1 << 34, used;
static char planted[64], fault[256];
static int planted_code, planted_after, planted_times;
static intptr_t waited;
static callback on_launch;
static __thread int entered;

void fake_plant(const char *name, int code, int after) {
    snprintf(planted, sizeof planted, "%s", name);
    planted_code = code; planted_after = after; planted_times = 1;
}
void fake_repeat(int times) { planted_times = times; }  /* the planted error that many times */
void fake_set(int devices_, int version_, size_t limit_) {
    devices = devices_; version = version_; limit = limit_;
}
void fake_on_launch(callback f) { on_launch = f; }
int fake_launches(void) { return launches; }
int fake_live_events(void) { return live_events; }
int fake_live_pinned(void) { return live_pinned; }
void fake_late(int n) { late = n; }  /* how many queries find an event that has not happened */
int fake_waited(void) { return (int)waited; }  /* the last stream that was waited for */
size_t fake_used(void) { return used; }
const char *fake_fault(void) { return fault; }

static int blame(int code, const char *text) { snprintf(fault, sizeof fault, "%s", text); return code; }
static int plant(const char *name) {
    if (strcmp(planted, name) || planted_after-- > 0) return 0;
    if (!--planted_times) planted[0] = 0;
    planted_after = 0;
    return planted_code;
}
#define START(name) { int code_ = plant(name); if (code_) return code_; }
#define INSIDE(name) START(name) if (!entered) return blame(INVALID_CONTEXT, name " without a context");
#define ON(name, stream) INSIDE(name) \
    if ((intptr_t)(stream) / 16 != entered) return blame(INVALID_CONTEXT, name " on a stream of another context");

static int known(address a, size_t n) {
    for (Block *b = blocks; b; b = b->next)
        if (a >= b->start && a + n <= b->start + b->size) return b->context == entered;
    return 0;
}

int cuInit(unsigned flags) { START("cuInit") return flags ? INVALID_VALUE : devices ? 0 : NO_DEVICE; }
int cuDriverGetVersion(int *v) { *v = version; return 0; }
int cuGetErrorName(int e, const char **s) {
    *s = e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
        : e == LAUNCH_RESOURCES ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" : "CUDA_ERROR_FAKE";
    return 0;
}
int cuGetErrorString(int e, const char **s) { *s = e == OUT_OF_MEMORY ? "out of memory" : "planted"; return 0; }
int cuDeviceGetCount(int *n) { START("cuDeviceGetCount") *n = devices; return 0; }
int cuDeviceGet(int *d, int k) { if (k >= devices) return 101; *d = k; return 0; }
int cuDeviceGetName(char *s, int n, int d) { (void)d; snprintf(s, n, "Fake H100"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
    (void)d;
    *v = a == 75 ? 9 : a == 76 ? 0 : a == 97 ? 232448 : a == 16 ? 132 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(intptr_t)(d + 1); return 0; }
int cuCtxSetCurrent(void *c) { START("cuCtxSetCurrent") entered = (int)(intptr_t)c; return 0; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = limit - used; *t = limit; return 0; }
int cuDeviceGetDefaultMemPool(void **p, int d) { (void)d; *p = (void *)8; return 0; }
int cuMemPoolSetAttribute(void *p, int a, void *v) { (void)p; (void)v; return a == 4 ? 0 : INVALID_VALUE; }
int cuMemPoolTrimTo(void *p, size_t n) { (void)p; (void)n; return 0; }
int cuMemAllocAsync(address *out, size_t n, void *stream) {
    ON("cuMemAllocAsync", stream)
    if (capturing && capturing == (intptr_t)stream) return blame(CAPTURE_UNSUPPORTED, "allocation while capturing");
    if (used + n > limit) return OUT_OF_MEMORY;
    Block *b = malloc(sizeof *b);
    b->start = (address)(uintptr_t)aligned_alloc(256, (n + 255) / 256 * 256);
    b->size = n; b->context = entered; b->next = blocks; blocks = b; used += n;
    memset((void *)(uintptr_t)b->start, 0xA5, n);
    *out = b->start;
    return 0;
}
int cuMemFreeAsync(address a, void *stream) {
    ON("cuMemFreeAsync", stream)
    for (Block **p = &blocks; *p; p = &(*p)->next)
        if ((*p)->start == a) {
            Block *b = *p;
            *p = b->next; used -= b->size;
            free((void *)(uintptr_t)a); free(b);
            return 0;
        }
    return blame(INVALID_VALUE, "freed memory that is not allocated");
}
int cuMemHostAlloc(void **p, size_t n, unsigned f) {
    (void)f;
    INSIDE("cuMemHostAlloc")
    if (n & (n - 1)) return blame(INVALID_VALUE, "pinned memory of an odd size");
    *p = malloc(n);
    live_pinned++;
    return 0;
}
int cuMemFreeHost(void *p) { free(p); live_pinned--; return 0; }

static void perform(Work *w) {
    if (w->kind == 0) {
        launches++;
        if (on_launch) on_launch(w->function->name, w->grid, w->function->parameters, w->values);
    } else if (w->kind == 1) memset((void *)(uintptr_t)w->target, w->byte, w->size);
    else memcpy((void *)(uintptr_t)w->target, (void *)(uintptr_t)w->source, w->size);
}
static int issue(Work w, void *stream) {
    if (!capturing || capturing != (intptr_t)stream) { perform(&w); return 0; }
    *tail = malloc(sizeof w);
    **tail = w; (*tail)->next = 0; tail = &(*tail)->next;
    return 0;
}
int cuMemcpyHtoDAsync_v2(address d, const void *s, size_t n, void *stream) {
    ON("cuMemcpyHtoDAsync_v2", stream)
    if (!known(d, n)) return blame(INVALID_VALUE, "copy to memory that is not allocated");
    memcpy((void *)(uintptr_t)d, s, n);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *d, address s, size_t n, void *stream) {
    ON("cuMemcpyDtoHAsync_v2", stream)
    if (!known(s, n)) return blame(INVALID_VALUE, "copy from memory that is not allocated");
    memcpy(d, (void *)(uintptr_t)s, n);
    return 0;
}
int cuMemcpyDtoDAsync_v2(address d, address s, size_t n, void *stream) {
    ON("cuMemcpyDtoDAsync_v2", stream)
    if (!known(d, n) || !known(s, n)) return blame(INVALID_VALUE, "copy between unknown memory");
    return issue((Work){.kind = 2, .target = d, .source = s, .size = n}, stream);
}
int cuPointerGetAttribute(void *out, int attribute, address a) {
    START("cuPointerGetAttribute")
    for (Block *b = blocks; b; b = b->next)
        if (attribute == 9 && a >= b->start && a < b->start + b->size) {
            *(int *)out = b->context - 1;
            return 0;
        }
    return INVALID_VALUE;
}
int cuMemsetD8Async(address d, unsigned char c, size_t n, void *stream) {
    ON("cuMemsetD8Async", stream)
    if (!known(d, n)) return blame(INVALID_VALUE, "filled memory that is not allocated");
    return issue((Work){.kind = 1, .target = d, .byte = c, .size = n}, stream);
}

static uint16_t u16(const unsigned char *p) { return p[0] | p[1] << 8; }
static uint32_t u32(const unsigned char *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const unsigned char *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

int cuModuleLoadData(void **module, const void *image) {
    INSIDE("cuModuleLoadData")
    const unsigned char *e = image;
    if (memcmp(e, "\177ELF", 4)) return 200;
    Function *f = calloc(1, sizeof *f);
    const unsigned char *heads = e + u64(e + 0x28);
    int size = u16(e + 0x3A), count = u16(e + 0x3C), names = u16(e + 0x3E);
    const unsigned char *text = e + u64(heads + (size_t)names * size + 0x18);
    for (int k = 0; k < count; k++) {
        const unsigned char *h = heads + (size_t)k * size;
        const char *name = (const char *)text + u32(h);
        if (strncmp(name, ".nv.info.", 9)) continue;
        snprintf(f->name, sizeof f->name, "%s", name + 9);
        const unsigned char *p = e + u64(h + 0x18), *end = p + u64(h + 0x20);
        while (p < end) {
            int kind = p[0], attribute = p[1], length = kind == 4 ? u16(p + 2) : 0;
            const unsigned char *body = p + 4;
            if (kind == 4 && attribute == 0x17) {
                int ordinal = u16(body + 4);
                f->offsets[ordinal] = u16(body + 6);
                f->sizes[ordinal] = u32(body + 8) >> 18;
                if (ordinal >= f->parameters) f->parameters = ordinal + 1;
            }
            if (kind == 4 && attribute == 0x10) f->threads = u32(body);
            p += 4 + length;
        }
    }
    live_modules++;
    *module = f;
    return 0;
}
int cuModuleUnload(void *m) { free(m); live_modules--; return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) {
    START("cuModuleGetFunction")
    if (strcmp(((Function *)m)->name, name)) return NOT_FOUND;
    *f = m;
    return 0;
}
int cuFuncSetAttribute(void *f, int a, int v) {
    START("cuFuncSetAttribute")
    if (a != 8 || v > 232448) return INVALID_VALUE;
    ((Function *)f)->shared = v;
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    ON("cuLaunchKernel", stream)
    Function *f = function;
    Work w = {.kind = 0, .function = f, .grid = gx};
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return blame(INVALID_VALUE, "shape");
    if (!gx) return blame(INVALID_VALUE, "an empty grid");
    if (f->threads && (int)bx != f->threads) return blame(INVALID_VALUE, "block size");
    if (shared > 48 * 1024 && (int)shared > f->shared)
        return blame(INVALID_VALUE, "shared memory without opting in");
    for (int k = 0; k < f->parameters; k++) {
        if (f->sizes[k] == 8) w.values[k] = *(uint64_t *)params[k];
        else if (f->sizes[k] == 4) w.values[k] = *(uint32_t *)params[k];
        else return blame(INVALID_VALUE, "a parameter of unknown size");
        if (f->sizes[k] == 8 && w.values[k] && !known(w.values[k], 1))
            return blame(INVALID_VALUE, "a pointer to memory that is not allocated");
    }
    return issue(w, stream);
}
int cuStreamCreate(void **s, unsigned f) { (void)f; INSIDE("cuStreamCreate") *s = (void *)(intptr_t)(16 * entered + streams++ % 16); return 0; }
int cuStreamSynchronize(void *s) {
    START("cuStreamSynchronize")
    waited = (intptr_t)s;
    return capturing && s == (void *)capturing ? blame(CAPTURE_UNSUPPORTED, "wait while capturing") : 0;
}
int cuStreamDestroy_v2(void *s) { (void)s; return 0; }
int cuStreamBeginCapture_v2(void *s, int mode) {
    (void)mode;
    ON("cuStreamBeginCapture_v2", s)
    if (capturing) return blame(CAPTURE_UNSUPPORTED, "two captures at once");
    capturing = (intptr_t)s; captured = 0; tail = &captured;
    return 0;
}
int cuStreamEndCapture(void *s, void **g) {
    (void)s;
    capturing = 0; *g = 0;
    START("cuStreamEndCapture")
    *g = captured;
    return 0;
}
int cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long f) {
    (void)f;
    START("cuGraphInstantiateWithFlags")
    live_graphs++; *x = g;
    return 0;
}
int cuGraphLaunch(void *x, void *s) {
    (void)s;
    INSIDE("cuGraphLaunch")
    for (Work *w = x; w; w = w->next) perform(w);
    return 0;
}
int cuGraphExecDestroy(void *x) {
    for (Work *w = x, *next; w; w = next) { next = w->next; free(w); }
    live_graphs--;
    return 0;
}
int cuGraphDestroy(void *g) { (void)g; return 0; }
int cuEventCreate(void **e, unsigned f) { (void)f; live_events++; *e = calloc(1, 16); return 0; }
int cuEventRecord(void *e, void *s) { (void)s; clock_gettime(CLOCK_MONOTONIC, e); return 0; }
int cuEventQuery(void *e) { (void)e; return late > 0 ? (late--, 600) : 0; }
int cuEventSynchronize(void *e) { (void)e; return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) {
    struct timespec *x = a, *y = b;
    *ms = (y->tv_sec - x->tv_sec) * 1e3f + (y->tv_nsec - x->tv_nsec) * 1e-6f;
    return 0;
}
int cuEventDestroy_v2(void *e) { free(e); live_events--; return 0; }
