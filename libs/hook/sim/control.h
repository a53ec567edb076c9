/* Extras of the simulated libcuda for tests and for the hook's clock seam; a real driver has none of these, so look them up with
 * dlsym and do without when they are missing. All times are the machine's nanoseconds. */
#ifndef TESSERA_SIM_CONTROL_H
#define TESSERA_SIM_CONTROL_H

#include <stdint.h>

#define SIM_CONTROL_API __attribute__((visibility("default")))

SIM_CONTROL_API uint64_t cuSimNow(void);               /* the machine's clock */
SIM_CONTROL_API void cuSimSleep(uint64_t ns);          /* waits in the foreground: virtual time passes for it */
SIM_CONTROL_API void cuSimSleepBackground(uint64_t ns); /* for helper threads: joins in the background, never makes time pass itself */
SIM_CONTROL_API void cuSimJoin(void);                  /* from now on time stands still while this thread runs, or waits in something that is not
                                                          the driver (waitpid, read): leave before that */
SIM_CONTROL_API void cuSimLeave(void);                 /* also done when the thread or its process ends */
SIM_CONTROL_API int cuSimIsVirtual(void);
SIM_CONTROL_API uint64_t cuSimCardUsed(int card);      /* physical bytes in use on a card (machine's index), all processes */
SIM_CONTROL_API uint64_t cuSimProcessUsed(int card, int pid); /* of one process; blocks it shares are counted with their holder */
SIM_CONTROL_API uint64_t cuSimBusy(int card, int pid); /* nanoseconds of kernels on the card so far; pid 0: all processes */
SIM_CONTROL_API uint64_t cuSimLaunches(int pid);       /* kernels launched by a process */
SIM_CONTROL_API int cuSimBeginCapture(void *stream);   /* a capture begun by a function that no library in between can know */
SIM_CONTROL_API uint64_t cuSimCaptureQueries(void);    /* how often this process asked whether a stream is being captured */
SIM_CONTROL_API uint64_t cuSimRecoveries(void);        /* how often the state was rebuilt after a death */
SIM_CONTROL_API int cuSimConsistent(void);             /* 1: every card's total equals the sum of its holders */

#endif
